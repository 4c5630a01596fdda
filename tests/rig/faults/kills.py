"""kill -9 of controld and the data plane at random moments, while lists change all the time. Root, for interfaces.

    python3 tests/rig/faults/kills.py --build DIR [--kills N] [--seed N] [--xdp]

Clients add to dynamic lists and delete, one of them 20,000 at once; two feeds are exchanged by rename or written in place, slowly; the policy
is reloaded. A kill comes at a random time after one of these began, or at a random operation on a disk (before it, in the middle of a
write, after it), or during a start. Then what was killed is started again; often the data plane first, alone, which must judge by its disk. With
--xdp controld enforces by XDP, and is all that there is to kill: what is pinned judges meanwhile.
A model (killed_lists.py) knows what was acknowledged, and what was asked for and not answered: that is there as a whole, or not at all.
Packets are judged by it all the while, and after each kill each list is compared with it, at controld and by packets.
Prints JSON: {"kills": by program, "older", "lost", "moments", "wrong", ...}. older: kills after which something was enforced that is older
than what was acknowledged, or seen before; lost: acknowledged entries that are missing, and whatever else was wrong.
"""

import collections
import os
import random
import socket
import struct
import sys
import threading
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from crashes import PROGRAMS as BOTH, REFUSALS  # noqa: E402 (path first)
from disk import DEATHS, Disk  # noqa: E402
from killed_lists import Model  # noqa: E402
from pace import hold  # noqa: E402
from probes import Probes, make_veths, own_bpf_folder  # noqa: E402
from report import report  # noqa: E402
from rig import say  # noqa: E402
from session import Memory, Session, SessionError, tail  # noqa: E402
from turns import CONFIG, MBUFS, VDEVS  # noqa: E402
from until import until  # noqa: E402
from wire import WIRE_HEADER, WIRE_STATS, question  # noqa: E402

ORDERS = ("add", "add", "bulk", "small", "small", "big", "reload")   # what a kill follows: of one kind each
DISK_SHARE, ALONE_SHARE, START_SHARE = 0.35, 0.5, 0.1
OPERATIONS = {"add": 16, "bulk": 60, "small": 24, "big": 60, "reload": 30}  # on both disks, about
SETTLE_SECONDS = 60           # until everything is as it should be after a kill
VERSION_SECONDS = 40          # until a feed is read that was written last: one of which the kernel told nothing is looked at every 30 s
PAUSE_SECONDS = 0.004         # between two sweeps
UNANSWERED_SECONDS = 0.1      # of a data plane that need not be there yet
LOST_SECONDS = 10
MOST_TOLD = 50                # of one kill


class Actor(threading.Thread):
    """Does one thing again and again, when asked and by itself after pauses, while the others may run. Everything may die meanwhile."""

    def __init__(self, crew, kind, act, pauses):
        super().__init__(daemon=True)
        self.crew, self.kind, self.act, self.pauses = crew, kind, act, pauses
        self.asked, self.begun, self.at_rest = threading.Event(), threading.Event(), threading.Event()
        self.random = random.Random(f"{crew.seed} {kind} {id(act)}")

    def run(self):
        while not self.crew.is_over:
            self.at_rest.set()
            self.crew.may_run.wait()
            self.at_rest.clear()
            if not self.crew.may_run.is_set():
                continue
            self.asked.wait(self.random.uniform(*self.pauses) if self.pauses else 0.05)
            if not self.crew.may_run.is_set() or (self.pauses is None and not self.asked.is_set()):
                continue
            self.asked.clear()
            self.begun.set()
            begin = time.monotonic()
            try:
                if self.act():
                    self.crew.took(self.kind, time.monotonic() - begin)
            except SessionError:  # controld went away
                hold(0.02)
            except Exception as error:  # pylint: disable=broad-except  # one that ends silently changes nothing more
                self.crew.killer.say_wrong("lost", f"{self.kind} ended: {type(error).__name__} {error}")


class Crew:
    def __init__(self, killer, seed):
        self.killer, self.seed = killer, seed
        self.may_run = threading.Event()
        self.is_over = False
        self.typical = {"add": 0.02, "bulk": 0.5, "small": 0.15, "big": 0.4, "reload": 0.2}  # seconds; learnt
        self.actors = []

    def add(self, kind, act, pauses=None):
        self.actors.append(Actor(self, kind, act, pauses))
        self.actors[-1].start()

    def took(self, kind, seconds):
        self.typical[kind] = 0.8 * self.typical[kind] + 0.2 * seconds

    def begin(self, kind):
        """Returns when one of this kind has begun what it was asked for."""
        actor = self.killer.random.choice([one for one in self.actors if one.kind == kind])
        actor.begun.clear()
        actor.asked.set()
        actor.begun.wait(2)

    def rest(self):
        """Until nobody is at anything. Whether all came to an end."""
        self.may_run.clear()
        return until("rest", lambda: all(actor.at_rest.is_set() for actor in self.actors), SETTLE_SECONDS, error=None)

    def stop(self):
        self.is_over = True
        self.may_run.set()
        for actor in self.actors:  # what they write is in a folder that goes away
            actor.join(LOST_SECONDS)


class Prober(threading.Thread):
    """Sweeps without end; each is compared with the model."""

    def __init__(self, killer):
        super().__init__(daemon=True)
        self.killer, self.model = killer, killer.model
        self.probes = Probes("in1", "in0") if killer.xdp else Probes("in1", "in1", "drop1")
        self.turn = threading.Lock()   # one sweep at a time: the killer makes some itself
        self.is_over = False
        self.answering = None          # the life of the data plane that has answered
        self.packets = 0

    def run(self):
        while not self.is_over:
            try:
                self.sweep()
            except Exception as error:  # pylint: disable=broad-except  # a thread that ends silently judges nothing
                self.killer.say_wrong("lost", f"the probes ended: {type(error).__name__} {error}")
                return
            hold(PAUSE_SECONDS)

    def sweep(self):
        with self.turn:
            life, question_ = self.killer.life, self.model.question()
            is_answering = self.answering == life
            fates = self.probes.fates(question_.sources, LOST_SECONDS if is_answering else UNANSWERED_SECONDS,
                                      lambda: self.killer.life != life or self.is_over)
        if fates is not None:
            self.answering = life
            self.packets += len(fates)
            for kind, text in self.model.judge(question_, fates):
                self.killer.say_wrong(kind, text)
        elif is_answering and self.killer.life == life and not self.is_over:
            self.killer.say_wrong("lost", f"probes did not come back from a data plane that runs ({self.probes.missing})")

    def ask(self, sources):
        """Their fates now. The data plane runs, or begins to."""
        with self.turn:
            fates = until("probes to come back", lambda: self.probes.fates(
                sources, 0.3 if self.answering != self.killer.life else LOST_SECONDS), SETTLE_SECONDS, SessionError,
                about=lambda: ":\n" + tail(self.killer.session.log("controld" if self.killer.xdp else "dataplane")))
            self.answering = self.killer.life
        return dict(zip(sources, fates))


class Killer:
    def __init__(self, session, seed, xdp):
        self.session, self.random, self.xdp = session, random.Random(seed), xdp
        self.programs = ("controld",) if xdp else BOTH
        self.disk = Disk(session)
        self.model = Model(session.folder, seed)
        self.life = 0                     # of the data plane: rises when it dies
        self.kills = dict.fromkeys(self.programs, 0)
        self.moments = collections.Counter()
        self.typical_start = dict.fromkeys(self.programs, 0.4)
        self.log_ends = dict.fromkeys(self.programs, 0)
        self.dead = []
        self.lock = threading.Lock()      # of found
        self.found = []                   # (kind, text) since the last kill
        self.prober = Prober(self)
        self.crew = Crew(self, seed)
        session.at_exit(self.close)

    def close(self):
        self.crew.stop()
        self.prober.is_over = True
        if self.prober.is_alive():
            self.prober.join()
        self.prober.probes.close()

    def say_wrong(self, kind, text):
        with self.lock:
            if len(self.found) < MOST_TOLD and (kind, text) not in self.found:
                self.found.append((kind, text))

    def begin(self):
        self.model.write_policy()
        for feed in self.model.feeds:
            feed.exchange()
        for name in reversed(self.programs):
            self.start(name)
        self.session.wait_enforced()
        self.prober.start()
        for client in self.model.clients:
            if client.is_bulk:
                self.crew.add("bulk", lambda one=client: one.change(self.session))
            else:
                self.crew.add("add", lambda one=client: one.change(self.session), (0.005, 0.05))
        small, big = self.model.feeds
        self.crew.add("small", lambda: self.feed(small), (0.1, 0.6))
        self.crew.add("big", lambda: self.feed(big))
        self.crew.add("reload", lambda: self.model.reload(self.session), (0.3, 1.5))
        self.crew.may_run.set()
        for kind in dict.fromkeys(ORDERS):
            self.crew.begin(kind)
            hold(2 * self.crew.typical[kind])
        self.check()

    def feed(self, feed):
        """Takes until the change is met by packets, or nearly: for the moments of kills."""
        version = feed.change()
        until("packets that meet it", lambda: feed.low >= version or not self.crew.may_run.is_set(), 3 * self.crew.typical[feed.kind],
              error=None, turn=0.002)
        return feed.low >= version

    # One kill.
    def kill(self):
        """[(kind, text)] of what is wrong."""
        self.dead = []
        kind = self.random.choice(ORDERS)
        if self.random.random() < DISK_SHARE:
            self.die_on_disk(kind)
        if not self.dead:
            self.crew.begin(kind)
            hold(self.random.uniform(0, 1.2) * self.crew.typical[kind])
            self.strike(f"{kind}", self.next_victim())
        self.return_()
        self.check()
        with self.lock:
            found, self.found = self.found, []
        return found

    def next_victim(self):
        if self.xdp:
            return "controld"
        first, second = BOTH
        ahead = self.kills[first] - self.kills[second]
        return self.random.choice(BOTH) if abs(ahead) < 5 else second if ahead > 0 else first

    def die_on_disk(self, kind):
        self.disk.kill_at(self.random.randint(1, OPERATIONS[kind]), self.random.choice(DEATHS))
        self.crew.begin(kind)
        until("a death", self.reap, 2 * self.crew.typical[kind] + 0.5, error=None, turn=0.001)
        if (operation := self.disk.spare()) is None:
            return
        until("the end of a process", self.reap, SETTLE_SECONDS, error=None, turn=0.001)
        self.moments[f"disk: {operation}"] += 1

    def reap(self):
        for name in self.programs:
            process = getattr(self.session, name)
            if process is not None and process.poll() is not None:
                self.forget(name)
        return self.dead

    def forget(self, name):
        self.life += name == "dataplane"
        setattr(self.session, name, None)
        self.kills[name] += 1
        self.dead.append(name)

    def strike(self, moment, name):
        self.moments[moment] += 1
        self.life += name == "dataplane"   # no probe is missed from now on
        self.session.kill(name)
        self.forget(name)

    def start(self, name):
        begin = time.monotonic()
        if name == "dataplane":  # without --wait-for-snapshot: its disk judges the first packet, or everything passes
            self.session.start_dataplane(CONFIG, VDEVS, 1, Memory(MBUFS, 2048), extra=())
        else:
            turn = self.model.turn.high
            extra = ["--target", "xdp:in0", "--bpf-dir", self.session.path("bpf")] if self.xdp else []
            self.session.start_controld(self.model.policy, targets=not self.xdp, extra=extra)
            self.model.controld_started(turn)
        self.typical_start[name] = time.monotonic() - begin

    def return_(self):
        """What was killed, again, while changes go on where they can. controld often finds a data plane that was alone."""
        if self.xdp:
            self.check_alone()
        elif "controld" in self.dead and "dataplane" not in self.dead and self.random.random() < ALONE_SHARE:
            self.strike("soon after the other one", "dataplane")
        hold(self.random.choice((0, 0.05, 0.3)))
        for name in ("dataplane", "controld"):
            if name not in self.dead:
                continue
            if self.random.random() < START_SHARE:
                self.kill_while_starting(name)
            self.start(name)
            if name == "dataplane" and "controld" in self.dead:
                self.check_alone()

    def kill_while_starting(self, name):
        before = getattr(self.session, name)
        start = threading.Thread(target=self.start_in_vain, args=(name,))
        start.start()
        hold(self.random.uniform(0, 1.1) * self.typical_start[name])
        until("a process", lambda: getattr(self.session, name) is not before or not start.is_alive(), turn=0.001)
        self.life += name == "dataplane"
        process = getattr(self.session, name)
        process.kill()
        process.wait()
        start.join()
        self.moments[f"start of {name}"] += 1
        self.forget(name)

    def start_in_vain(self, name):
        try:
            self.start(name)
        except SessionError:  # it was ended
            pass

    # What is there now.
    def check_alone(self):
        """The data plane has only its disk, or XDP what is pinned: any state from the last acknowledged one on."""
        if not self.xdp and (number := self.dataplane_number()) < self.model.number:
            self.say_wrong("older", f"the data plane alone has generation {number}, {self.model.number} was acknowledged")
        question_ = self.model.question()
        for kind, text in self.model.judge(question_, list(self.prober.ask(question_.sources).values()), is_at_once=True):
            self.say_wrong(kind, text + " (without controld)")
        for client in self.model.clients:
            for kind, text in client.compare(self.prober.ask(client.sources())):
                self.say_wrong(kind, text + " (without controld)")

    def check(self):
        """Nobody changes anything any more: controld, packets and the model agree."""
        if not self.crew.rest():
            self.say_wrong("lost", "a request was not answered: " + ", ".join(
                actor.kind for actor in self.crew.actors if not actor.at_rest.is_set()))
        try:
            self.session.wait_enforced()
            self.check_numbers()
            for client in self.model.clients:
                self.check_client(client)
            self.check_versions()
            self.refusals()
        except SessionError as error:
            self.say_wrong("lost", str(error))
        self.crew.may_run.set()

    def check_numbers(self):
        status = self.session.call("status")
        target, = status["targets"]
        for who, generation in (("controld", status["generation"]), ("its target", target["generation"])):
            if self.model.epoch not in (None, generation["epoch"]):
                self.say_wrong("lost", f"{who} is in epoch {generation['epoch']}, not {self.model.epoch}")
            elif generation["number"] < self.model.number:
                self.say_wrong("older", f"{who} has generation {generation['number']}, {self.model.number} was acknowledged")
        self.model.acknowledge(status["generation"])
        if status["from_last_good"]:
            self.say_wrong("lost", "the policy was not read")

    def check_client(self, client):
        entries, after = [], None
        while True:
            page = self.session.call("entries", name=client.list, **({"after": after} if after else {}))
            if "error" in page:
                raise SessionError(f"entries of {client.list}: {page['error']}")
            entries += page["entries"]
            after = page.get("next")
            if not after:
                break
        for kind, text in client.compare_all({entry["entry"] for entry in entries}):
            self.say_wrong(kind, text + " (says controld)")
        for kind, text in client.compare(self.prober.ask(client.sources()), is_exact=True):
            self.say_wrong(kind, text)
        client.settle()

    def check_versions(self):
        """What was written last is enforced, soon."""
        def late():
            return [one for one in self.model.versions if one.low < one.due()]

        if not until("the last versions", lambda: not late(), VERSION_SECONDS, error=None, turn=0.005):
            for one in late():
                self.say_wrong("lost", f"{one.kind}: version {one.due()} ({one.way}) is not enforced, {one.low} was seen")
            self.session.call("reload")  # it is told once

    def dataplane_number(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(SETTLE_SECONDS)
            connection.connect(self.session.path("dataplane.sock"))
            connection.send(question(WIRE_STATS))
            return struct.unpack_from("<8xQ", connection.recv(1 << 17), WIRE_HEADER.size)[0]

    def refusals(self):
        """What the programs say of files that they do not take."""
        for name in self.programs:
            text = self.session.log(name)
            news, self.log_ends[name] = text[self.log_ends[name]:], len(text)
            for line in news.splitlines():
                if REFUSALS.search(line):
                    self.say_wrong("lost", f"{name} says: {line}")


def run(build, kills=500, seed=1, xdp=False, progress=say):
    make_veths(("in0", "in1"), ("drop0", "drop1"))
    older, lost, texts = 0, 0, []
    begin = time.monotonic()
    with Session(build) as session:
        if xdp:
            own_bpf_folder(session)
        killer = Killer(session, seed, xdp)
        killer.begin()
        is_over = False
        while sum(killer.kills.values()) < kills and not is_over:
            try:
                found = killer.kill()
            except SessionError as error:  # nothing can be killed that did not start
                found, is_over = [*killer.found, ("lost", str(error))], True
            number = sum(killer.kills.values())
            older += any(kind == "older" for kind, _ in found)
            lost += sum(kind == "lost" for kind, _ in found)
            for kind, text in found[:8]:
                texts.append(f"kill {number} ({', '.join(killer.dead)}): {kind}: {text}")
                progress("kills: " + texts[-1])
            if number % 25 < len(killer.dead):
                progress(f"kills: {number} in {time.monotonic() - begin:.0f} s, {killer.prober.packets} packets, {older} older, {lost} lost")
            is_over |= len(texts) > 200
        model = killer.model
        return {"kills": killer.kills, "older": older, "lost": lost, "seed": seed, "seconds": time.monotonic() - begin,
                "packets": killer.prober.packets, "generation": model.number, "requests": sum(one.requests for one in model.clients),
                "unanswered": sum(one.unanswered for one in model.clients), "entries": sum(one.entries for one in model.clients),
                "versions": {one.kind: one.high for one in model.versions}, "moments": dict(killer.moments), "wrong": texts}


if __name__ == "__main__":
    report(run, __doc__, kills=500, xdp=False)
