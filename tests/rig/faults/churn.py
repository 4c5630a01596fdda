"""A list of which a hundredth is another one every second, under full-rate traffic, on either plane. Root, for interfaces.

    python3 tests/rig/faults/churn.py --build DIR [--entries N] [--seconds N] [--xdp]

A feed is exchanged by rename. Probes (probes.py) go by the same enforcer all the while: addresses that were just added or removed, some that
stay, some that were removed before, strangers. What becomes of each is compared with the file's old and new content, as Python sets have it:
until the new one was met, either is right for what has changed; from then on only the new one. Beside them runs traffic as fast as it goes:
  data plane   net_pcap loops a capture in which every eighth frame is of a list that lets it pass; when the data plane ends, its counters
               must be those of so many rounds of it
  XDP          tests/xdp/xdp_traffic on an interface of its own: it counts wrong verdicts itself
Stretches of churn alternate with quiet ones, of a fifth of their length, for the rates. Prints JSON: {"enforced_ms", "lost", "wrong",
"rate": {"churn", "quiet"}, "kib", ...}.
"""

import os
import random
import re
import socket
import struct
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
import xdp_swaps  # noqa: E402 (path first)
from capture import Capture, write_capture  # noqa: E402
from pace import hold  # noqa: E402
from probes import Probes, frame_from, make_veths, own_bpf_folder, text_of  # noqa: E402
from ratio import PORT, SPARE_MBUFS  # noqa: E402
from report import report  # noqa: E402
from rig import PlacedSession, processors, say  # noqa: E402
from session import Memory, SessionError, tail  # noqa: E402
from until import until  # noqa: E402
from wire import WIRE_HEADER, WIRE_STATS, question  # noqa: E402

SHARE = 0.01                  # of the entries that a change replaces
STRETCHES, QUIET_SHARE = 12, 0.2
AGAIN_SHARE = 0.1             # of what is added: it was removed before
PAUSE_SECONDS = 0.003         # between two sweeps
ENFORCE_SECONDS = 30          # a change that takes longer fails the run
BUSY_FRAMES, STANDING_EVERY = 8192, 8
STANDING, PASSING = 0x0A100000, 0x0A200000  # 10.16.0.0 and up: busy frames that a list lets pass; 10.32.0.0 and up: that none names
LISTS = """  - {name: churn, action: drop, match: src, file: churn.txt, guard: {reserved: keep}}
"""
POLICY = "version: 1\nlists:\n" + LISTS + "  - {name: standing, action: pass, match: src, file: standing.txt}\n"
CONFIG = "forward: hairpin\nsnapshot_memory: 2GiB\nports: [{port: 0}, {port: 1}]\ndrop_port: 2"
VDEVS = (PORT.format(pcap="busy.pcap"), "net_af_packet0,iface=in0", "net_af_packet1,iface=drop0")
LONGEST = 2048                # of frames that af_packet has room for
COUNTERS = ("rx_missed", "tx_lost")
# How many of a sweep's probes are of which kind.
ADDED, REMOVED, STANDS, FORMER, STRANGER = "added", "removed", "stands", "former", "stranger"
OF_A_SWEEP = {ADDED: 8, REMOVED: 8, STANDS: 6, FORMER: 4, STRANGER: 4}
TOLD = 20                     # texts of what is wrong


class Feed:
    """The list's file, and what is in it: the reference."""

    def __init__(self, path, entries, seed):
        self.path, self.random = path, random.Random(seed)
        self.hosts = []
        self.members = set()
        while len(self.hosts) < entries:
            self._append(self.draw())
        self.lines = [self._line(host) for host in self.hosts]
        self.former = []                       # removed by changes before the last one; some may be back
        self.added, self.removed = [], []      # by the last change
        self.write()
        self.rename()

    @staticmethod
    def _line(host):
        return text_of(host).encode() + b"\n"

    def _append(self, host):
        self.hosts.append(host)
        self.members.add(host)

    def draw(self, but=()):
        """An address that is no member, none of these, nor one of any other traffic: those of xdp_traffic are the first 2^31 multiples."""
        while True:
            host = self.random.randrange(1 << 31, 1 << 32) * xdp_swaps.MULTIPLIER % 2**32
            if 11 <= host >> 24 < 223 and host >> 24 not in (127, 198, 203) and host not in self.members and host not in but:
                return host

    def change(self):
        """Makes the next content, beside the file. What it adds and removes is in `added` and `removed`."""
        count = max(1, int(len(self.hosts) * SHARE))
        self.former = (self.former + self.removed)[-100_000:]
        self.added, gone = [], set()
        for place in self.random.sample(range(len(self.hosts)), count):
            new = self.random.choice(self.former) if self.former and self.random.random() < AGAIN_SHARE else None
            if new is None or new in self.members or new in gone:
                new = self.draw(gone)
            old, self.hosts[place] = self.hosts[place], new
            self.members.remove(old)
            self.members.add(new)
            self.lines[place] = self._line(new)
            gone.add(old)
            self.added.append(new)
        self.removed = list(gone)
        self.write()

    def write(self):
        with open(self.path + ".new", "wb") as file:
            file.write(b"".join(self.lines))

    def rename(self):
        os.rename(self.path + ".new", self.path)

    def probes(self):
        """[(address, kind)], mixed. Those that stand were in it before the last change, too; so strangers were not."""
        take, found = self.random.choice, []
        fresh = set(self.added)
        for kind, count in OF_A_SWEEP.items():
            for _ in range(count):
                if kind in (ADDED, REMOVED):
                    changed = self.added if kind == ADDED else self.removed
                    if not changed:
                        continue
                    found.append((take(changed), kind))
                elif kind == STANDS:
                    host = take(self.hosts)
                    found.append((host, ADDED if host in fresh else STANDS))
                elif kind == FORMER:
                    host = take(self.former) if self.former else self.draw()
                    found.append((host, (ADDED if host in fresh else STANDS) if host in self.members else FORMER))
                else:
                    found.append((self.draw(), STRANGER))
        self.random.shuffle(found)
        # A stranger, or one from long ago, may have been removed just now.
        gone = set(self.removed)
        return [(host, REMOVED if host in gone else kind) for host, kind in found]


NEW_VERDICT = {ADDED: True, REMOVED: False, STANDS: True, FORMER: False, STRANGER: False}  # whether it is dropped


class Judge:
    """Compares fates with the reference."""

    def __init__(self):
        self.is_new = True     # one address that the last change added or removed met the new verdict: from then on all do
        self.met = {ADDED, REMOVED}  # of both kinds one did
        self.wrong, self.texts = 0, []
        self.probes = dict.fromkeys(OF_A_SWEEP, 0)

    def say(self, text, count=1):
        self.wrong += count
        if len(self.texts) < TOLD:
            self.texts.append(text)

    def renamed(self):
        self.is_new, self.met = False, set()

    def is_enforced(self):
        return len(self.met) == 2

    def judge(self, probes, fates):
        """In the order in which they were sent: the new verdict once, and the old one behind it, is wrong."""
        for (host, kind), is_dropped in zip(probes, fates):
            self.probes[kind] += 1
            is_changed = kind in (ADDED, REMOVED)
            is_as_new = is_dropped == NEW_VERDICT[kind]
            if is_changed and is_as_new:
                self.is_new = True
                self.met.add(kind)
            elif not is_as_new and (self.is_new or not is_changed):
                self.say(f"{text_of(host)} ({kind}) was {'dropped' if is_dropped else 'passed'}"
                         + (", though the change had been met" if is_changed else ""))


class Churn:
    """Changes, probes and times. enforcer: what is tried (Dataplane or Xdp, below)."""

    def __init__(self, enforcer, feed):
        self.enforcer, self.feed = enforcer, feed
        self.judge = Judge()
        self.enforced_ms = []

    def sweep(self):
        """When it was over."""
        probes = self.feed.probes()
        fates = self.enforcer.probes.fates([host for host, _ in probes])
        now = time.monotonic()
        if fates is not None:
            self.judge.judge(probes, fates)
        return now

    def sweeps_until(self, moment):
        while time.monotonic() < moment:
            self.sweep()
            hold(PAUSE_SECONDS)

    def one_change(self):
        self.feed.change()
        self.judge.renamed()
        ends, begin = [], time.monotonic()
        self.feed.rename()

        def is_enforced():
            ends.append(self.sweep())
            return self.judge.is_enforced()

        until("a change to be enforced", is_enforced, ENFORCE_SECONDS, SessionError, about=lambda: "\n" + self.enforcer.log(),
              turn=PAUSE_SECONDS)
        self.enforced_ms.append((ends[-1] - begin) * 1e3)

    def stretch(self, seconds, is_churn):
        """Packets a second of the busy traffic."""
        self.sweeps_until(time.monotonic() + PAUSE_SECONDS)
        packets, begin = self.enforcer.busy_packets()
        due = begin
        for _ in range(seconds):
            due += 1
            if is_churn:
                self.one_change()
            self.sweeps_until(due)
        packets_after, end = self.enforcer.busy_packets()
        return (packets_after - packets) / (end - begin)


def kib_of(process):
    """Resident memory, huge pages included."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("VmRSS:", "HugetlbPages:")))


class Dataplane:
    """One worker with two ports: a capture that loops as fast as the worker goes, all of which passes, and a veth for probes. What is dropped
    comes out of another veth."""

    name = "data plane"

    def __init__(self, session):
        self.session = session
        make_veths(("in0", "in1"), ("drop0", "drop1"))
        self.policy = POLICY
        frames = [frame_from(STANDING + at if at % STANDING_EVERY == 0 else PASSING + at) for at in range(BUSY_FRAMES)]
        frames = [frame.replace(b"weirprbe", b"weirbusy") for frame in frames]
        self.capture = Capture(frames=frames, headers=[(0, 0, len(frame)) for frame in frames])
        self.probes = None

    def start(self):
        session = self.session
        write_capture(session.path("busy.pcap"), self.capture)
        with open(session.path("standing.txt"), "w", encoding="ascii") as file:
            file.writelines(text_of(STANDING + at) + "\n" for at in range(0, BUSY_FRAMES, STANDING_EVERY))
        session.start_dataplane(CONFIG, VDEVS, 1, Memory(BUSY_FRAMES + 4 * SPARE_MBUFS, LONGEST))
        session.start_controld(session.path("policy.yaml"))
        session.wait_enforced()
        self.probes = Probes("in1", "in1", "drop1")
        return {"dataplane": session.dataplane, "controld": session.controld}

    def busy_packets(self):
        """(packets that the worker has judged, when). Asked without controld, which may be busy; probes are among them, a few."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(ENFORCE_SECONDS)
            connection.connect(self.session.path("dataplane.sock"))
            connection.send(question(WIRE_STATS))
            answer = connection.recv(1 << 17)
        return struct.unpack_from("<Q", answer, WIRE_HEADER.size + 24)[0], time.monotonic()

    def log(self):
        return tail(self.session.log("controld")) + "\n" + tail(self.session.log("dataplane"))

    def finish(self, churn):
        """(frames lost, texts of what is wrong), by the counters that the data plane prints when it ends."""
        probes = self.probes
        if self.session.stop("controld") != 0 or self.session.stop("dataplane") != 0:
            churn.judge.say(f"a program ended with an error:\n{self.log()}")
        log = self.session.log("dataplane")
        found = {name: int(re.search(rf"^  {name} +(\d+)$", log, re.M)[1]) for name in ("packets", "passed", "dropped", *COUNTERS)}
        churn_dropped = int(re.search(r"^  churn +\d+ +(\d+)", log, re.M)[1])
        standing = int(re.search(r"^  standing +\d+ +\d+ +(\d+)", log, re.M)[1])
        lost = sum(found[name] for name in COUNTERS) + abs(found["packets"] - found["passed"] - found["dropped"])
        if probes.missing == 0:
            lost += abs(churn_dropped - probes.dropped)
            rounds, rest = divmod(found["packets"] - probes.sent, BUSY_FRAMES)
            expected = (rounds * BUSY_FRAMES + rest + STANDING_EVERY - 1) // STANDING_EVERY
            if standing != expected or found["dropped"] != churn_dropped:
                churn.judge.say(f"of the busy frames {standing} were passed by their list, not {expected}, and "
                                f"{found['dropped'] - churn_dropped} were dropped", abs(standing - expected) or 1)
        if "mbufs, all returned" not in log:
            churn.judge.say("mbufs are missing:\n" + tail(log))
        return lost, found["packets"]


class Xdp:
    """controld enforces by XDP on two interfaces: xdp_traffic is as fast as it can on one of them, probes come in by the other one."""

    name = "XDP"

    def __init__(self, session):
        self.session = session
        make_veths(("out0", "in0"))
        xdp_swaps.make_interfaces()
        self.bpf_dir = own_bpf_folder(session)
        self.policy = xdp_swaps.POLICIES[0] + LISTS
        self.probes = self.traffic = self.before = None

    def start(self):
        session = self.session
        with open(session.path("members.txt"), "w", encoding="ascii") as file:
            file.writelines(text_of(i * xdp_swaps.MULTIPLIER % 2**32) + "\n" for i in range(xdp_swaps.MEMBERS))
        session.start_controld(session.path("policy.yaml"), targets=False,
                               extra=["--target", "xdp:r0,in0", "--bpf-dir", self.bpf_dir])
        session.wait_enforced()
        self.probes = Probes("out0", "in0")
        self.before = xdp_swaps.received()
        self.traffic = xdp_swaps.Traffic(session, 1e12)
        session.at_exit(self.traffic.process.kill)
        if not self.traffic.first_line.wait(ENFORCE_SECONDS):
            raise SessionError("xdp_traffic makes no frames")
        return {"controld": session.controld}

    def busy_packets(self):
        """The frames that came to the program, by the interface's count."""
        return xdp_swaps.received(), time.monotonic()

    def log(self):
        return tail(self.session.log("controld"))

    def finish(self, churn):
        stats = self.session.stats()
        result = xdp_swaps.result(self.traffic.end(), self.before)
        if result["wrong"]:
            churn.judge.say(f"of the busy frames {result['wrongly_dropped']} were wrongly dropped, {result['wrongly_passed']} wrongly "
                            "passed", result["wrong"])
        lost = result["lost"]
        if self.probes.missing == 0:
            lost += abs(stats["lists"]["churn"]["dropped"] - self.probes.dropped)
        if self.session.stop("controld") != 0:
            churn.judge.say(f"controld ended with an error:\n{self.log()}")
        return lost, result["frames"]


def lengths(seconds):
    """Seconds of each (stretch of churn, quiet stretch)."""
    stretches = max(1, min(STRETCHES, seconds // 4))
    of_churn = [seconds // stretches + (number < seconds % stretches) for number in range(stretches)]
    return [(length, max(1, round(length * QUIET_SHARE))) for length in of_churn]


def run(build, entries=1_000_000, seconds=60, xdp=False, seed=1):
    """On one plane, in a network of this process's own."""
    with PlacedSession(build) as session:
        enforcer = (Xdp if xdp else Dataplane)(session)
        feed = Feed(session.path("churn.txt"), entries, seed)
        with open(session.path("policy.yaml"), "w", encoding="ascii") as file:
            file.write(enforcer.policy)
        programs = enforcer.start()
        session.at_exit(enforcer.probes.close)
        os.sched_setaffinity(0, processors()[1])  # the other one is the worker's, or xdp_traffic's
        churn = Churn(enforcer, feed)
        rates = {"churn": [], "quiet": []}
        kib = []
        for number, (of_churn, of_quiet) in enumerate(lengths(seconds)):
            rates["churn"].append(churn.stretch(of_churn, True))
            rates["quiet"].append(churn.stretch(of_quiet, False))
            kib.append({name: kib_of(process) for name, process in programs.items()})
            say(f"churn: {enforcer.name}: stretch {number + 1}: {rates['churn'][-1] / 1e6:.2f} Mpps, quiet {rates['quiet'][-1] / 1e6:.2f}; "
                f"enforced within {max(churn.enforced_ms[-of_churn:]):.0f} ms; {churn.judge.wrong} wrong, {enforcer.probes.missing} lost")
        lost, packets = enforcer.finish(churn)
        probes = enforcer.probes
        if probes.late:
            churn.judge.say(f"{probes.late} probes came twice, or behind others that were sent later", probes.late)
    return {"plane": enforcer.name, "entries": entries, "changes": len(churn.enforced_ms), "enforced_ms": churn.enforced_ms,
            "lost": lost + probes.missing, "wrong": churn.judge.wrong, "texts": churn.judge.texts, "rate": rates, "kib": kib,
            "probes": probes.sent, "of_kind": churn.judge.probes, "packets": packets}


def main():
    found = {}

    def work(build, entries, seconds, xdp, seed):
        found.update(run(build, entries, seconds, xdp, seed))
        return found

    report(work, __doc__, entries=1_000_000, seconds=60, xdp=False)
    return 0 if found["lost"] == found["wrong"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
