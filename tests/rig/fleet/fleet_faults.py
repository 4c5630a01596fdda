"""Faults of a fleet, at random, while policies are pushed and entries added. Root, for networks and disks of their own.

    python3 tests/rig/fleet/fleet_faults.py --build DIR [--faults N] [--nodes N] [--seed N]

Nodes enforce by XDP. They, the process of each that speaks to etcd, and three members of etcd are killed and stopped, members run slowly; their cables are pulled;
their disks are full; clocks of both jump by up to a day; etcd forgets what was before (compaction), and has used up its space (quota).
Each is ended a while later.
Packets of every node are judged all the while, by what they say themselves: each revision drops a source of its own, so which revision a
node enforces is seen from outside. A packet is judged wrongly when no revision, or more than the two around an exchange, drop theirs; when
a revision is met that is older than one that was met before; when what every revision drops passes, or what none drops does not.
In the end each node enforces the newest revision, and holds and drops exactly what was acknowledged and neither deleted nor ended.
Prints JSON: {"wrong": texts, "older", "faults": by kind, "revisions", "entries", "packets"}.
"""

import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import sys
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from fault_rig import DAY, Switch
from fleet_rig import Etcd, Network, Node, Operator
from full_disks import MNT_DETACH, mount
from namespaces import in_network, mount_bpf, own_mounts, own_network
from other_clock import OtherClock, why_not
from pace import hold
from probes import Probes
from report import report
from rig import say
from session import SessionError
from until import until

MEMBERS = 3
NODE_DISK, MEMBER_DISK = "mode=0700,size=64m", "mode=0700,size=512m"
QUOTA_MIB, JUNK_KIB = 24, 1200     # of etcd's store; of one value, less than a request may have
ROOM_SECONDS = 60
SLOW_SECONDS = (0.2, 0.05)  # of a member that is slow: how long it stands, and how long it runs
JUMPS = (-DAY, -3600, -5, 0, 5, 3600, DAY)
SETTLE_SECONDS = 90
PAUSES = (0.2, 2.5)
PAUSE_SECONDS = 0.02       # between two sweeps
BEFORE, BEHIND = 12, 2     # markers of revisions that are asked for, around the one that was met last
BAD, INNOCENT = 0xC6130001, 0xC6130002  # 198.19.0.1 and .2: of a list of every revision, and of none


def number_of(text):
    return int.from_bytes(socket.inet_aton(text), "big")


def marker(revision):
    """The source that only this one drops."""
    return f"198.18.{revision >> 8}.{revision & 255}"


def policy(revision):
    return (f"version: 1\nlists:\n  - {{name: bad, action: drop, entries: [198.19.0.1]}}\n"
            f"  - {{name: rev, action: drop, entries: [{marker(revision)}]}}\n  - {{name: jail, action: drop, dynamic: true}}\n")


def fill(folder):
    """No byte more, while others write there, too. What was written stays."""
    with open(os.path.join(folder, "filler"), "wb") as file:
        for chunk in (16 << 20, 1 << 20, 4096):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, chunk)


class Watch(threading.Thread):
    """What becomes of packets at one node, without end."""

    def __init__(self, node, newest):
        super().__init__(daemon=True)
        self.node, self.newest = node, newest  # newest(): the revision that may be met at most
        self.probes = in_network(node.network.path, lambda: Probes("in1", "in0"))
        self.met, self.packets = 0, 0
        self.wrong, self.older = [], []
        self.turn = threading.Lock()
        self.is_over = False

    def fates(self, sources):
        with self.turn:
            found = self.probes.fates(sources, is_over=lambda: self.is_over)
        if found is None:
            if not self.is_over:
                raise SessionError(f"probes of {self.node.name} do not come back")
            return {}
        self.packets += len(found)
        return dict(zip(sources, found))

    def run(self):
        while not self.is_over:
            try:
                self.sweep()
            except Exception as error:  # pylint: disable=broad-except  # a thread that ends silently judges nothing
                self.wrong.append(f"{self.node.name}: the probes ended: {type(error).__name__} {error}")
                return
            hold(PAUSE_SECONDS)

    def sweep(self):
        """In the order of revisions: where one takes the place of an older one meanwhile, either both are met, or one."""
        asked = range(max(1, self.met - BEFORE), self.newest() + BEHIND + 1)
        fates = self.fates([BAD, INNOCENT, *(number_of(marker(revision)) for revision in asked)])
        if not fates:
            return
        met = [revision for revision in asked if fates[number_of(marker(revision))]]
        if met and self.met and met[0] < self.met:
            self.older.append(f"{self.node.name}: packets meet revision {met[0]} after {self.met}")
        if self.met and len(met) not in (1, 2):
            self.wrong.append(f"{self.node.name}: packets of revisions {met} are dropped at one time; before it was {self.met}")
        if self.met and not fates[BAD]:
            self.wrong.append(f"{self.node.name}: what every revision drops passes, at revision {met or self.met}")
        if fates[INNOCENT]:
            self.wrong.append(f"{self.node.name}: what no revision drops is dropped, at revision {met or self.met}")
        self.met = max([self.met, *met])

    def stop(self):
        self.is_over = True
        self.join()
        self.probes.close()


class Slow(threading.Thread):
    """A process that stands most of the time."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.is_over = process, threading.Event()
        self.start()

    def run(self):
        while not self.is_over.is_set():
            for which, seconds in zip((signal.SIGSTOP, signal.SIGCONT), SLOW_SECONDS):
                self.process.send_signal(which)
                self.is_over.wait(seconds)

    def stop(self):
        self.is_over.set()
        self.join()
        self.process.send_signal(signal.SIGCONT)


class Faults:
    def __init__(self, etcd, nodes, operator, seed):
        self.etcd, self.nodes, self.operator = etcd, nodes, operator
        self.random = random.Random(seed)
        self.entries = {}          # acknowledged and not deleted: text -> when it ends (monotonic), or None
        self.doubtful = set()      # neither acknowledged nor refused
        self.next_entry = 0
        self.pushes, self.revision, self.newest = 0, 0, 0   # newest: the last push that was acknowledged
        self.late = []             # (when, what to do): ends of faults
        self.hurt = set()          # what has a fault now: nodes, numbers of members
        self.done = {}             # by kind
        self.clocks = {}           # of members that jumped: by process
        self.impossible = ()       # kinds that this machine does not let us do

    def at_the_end(self, who, action):
        self.hurt.add(who)

        def end():
            action()
            self.hurt.discard(who)

        self.late.append((time.monotonic() + self.random.uniform(*PAUSES), end))

    def run_late(self, everything=False):
        now = time.monotonic()
        due = [action for when, action in self.late if everything or when <= now]
        self.late = [] if everything else [one for one in self.late if one[0] > now]
        for action in due:
            action()

    # --- what people do ---

    def push(self):
        self.pushes += 1
        with open(os.path.join(self.operator.folder, "weir.yaml"), "w", encoding="ascii") as file:
            file.write(policy(self.pushes))
        code, answer, _ = self.operator.try_fleet("push", "weir.yaml")
        if code == 0:
            self.revision, self.newest = answer["revision"], self.pushes

    def add(self):
        self.next_entry += 1
        text = f"203.0.{self.next_entry >> 8}.{self.next_entry & 255}"
        ttl = self.random.choice((None, None, 3, 3600))
        code, _, _ = self.operator.try_fleet("add", text, *(["--ttl", f"{ttl}s"] if ttl else []))
        if code == 0:
            self.entries[text] = time.monotonic() + ttl if ttl else None
        else:
            self.doubtful.add(text)

    def delete(self):
        if not self.entries:
            return
        text = self.random.choice(sorted(self.entries))
        code, _, _ = self.operator.try_fleet("del", text)
        self.entries.pop(text)
        if code != 0:
            self.doubtful.add(text)

    # --- what goes wrong ---

    def some_node(self):
        return self.random.choice([node for node in self.nodes if node not in self.hurt] or [None])

    def some_member(self):
        """Now and then the last but one: then etcd takes nothing for a while."""
        well = [member for member in range(MEMBERS) if member not in self.hurt]
        if not well or (len(well) < MEMBERS and self.random.random() < 0.8):
            return None
        return self.random.choice(well)

    def kill_node(self, node):
        node.kill("controld")
        self.at_the_end(node, lambda: start(node))

    def stop_node(self, node):
        node.controld.send_signal(signal.SIGSTOP)
        self.at_the_end(node, lambda: node.controld.send_signal(signal.SIGCONT))

    def kill_follower(self, node):
        """The process that speaks to etcd."""
        subprocess.run(["pkill", "-KILL", "-x", "weir-fleet", "--pgroup", str(os.getpgid(node.controld.pid))], check=False)

    def cut_node(self, node):
        node.network.connect(False)
        self.at_the_end(node, lambda: node.network.connect(True))

    def fill_node(self, node):
        fill(node.state_path("controld"))
        self.at_the_end(node, lambda: os.unlink(os.path.join(node.state_path("controld"), "filler")))

    def turn_clock(self, node):
        """It stays so until it jumps again."""
        node.switch.ahead(realtime=self.random.choice(JUMPS))

    def kill_member(self, member):
        self.etcd.kill(member)
        self.at_the_end(member, lambda: self.etcd.start(member))

    def stop_member(self, member):
        self.etcd.processes[member].send_signal(signal.SIGSTOP)
        self.at_the_end(member, lambda: self.etcd.processes[member].send_signal(signal.SIGCONT))

    def slow_member(self, member):
        self.at_the_end(member, Slow(self.etcd.processes[member]).stop)

    def cut_member(self, member):
        self.etcd.networks[member].connect(False)
        self.at_the_end(member, lambda: self.etcd.networks[member].connect(True))

    def fill_member(self, member):
        """It ends when it cannot write."""
        disk = os.path.dirname(self.etcd.data(member))
        fill(disk)

        def empty():
            os.unlink(os.path.join(disk, "filler"))
            if self.etcd.processes[member].poll() is not None:
                self.etcd.kill(member)
                self.etcd.start(member)

        self.at_the_end(member, empty)

    def turn_member_clock(self, member):
        """It stays so until it jumps again, or starts anew."""
        process = self.etcd.processes[member].pid
        if process not in self.clocks:
            until("etcd", lambda: os.path.basename(os.readlink(f"/proc/{process}/exe")) == "etcd")  # what enters its network is not it yet
            self.clocks[process] = OtherClock(process)
        self.clocks[process].ahead(self.random.choice(JUMPS))

    def compact(self):
        """Whoever does not watch now finds that what it waited for is not kept any more."""
        done = self.etcd.ctl("get", "x", "--write-out=fields", check=False)
        revision = next((line.split(":")[1].strip() for line in done.stdout.splitlines() if line.startswith('"Revision"')), None)
        return revision is not None and self.etcd.ctl("compact", revision, check=False).returncode == 0

    def use_up_quota(self):
        """Nothing new is taken until somebody has made room, as an operator would."""
        number = 0
        while self.etcd.ctl("put", f"junk/{number}", text="x" * (JUNK_KIB << 10), check=False).returncode == 0:
            number += 1
        self.hurt.update(range(MEMBERS))

        def make_room():
            self.hurt.difference_update(range(MEMBERS))
            until("room in etcd", lambda: (
                self.etcd.ctl("del", "junk/", "--prefix", check=False).returncode == 0 and self.compact() and
                self.etcd.ctl("defrag", check=False).returncode == 0 and
                self.etcd.ctl("alarm", "disarm", check=False).returncode == 0 and
                self.etcd.ctl("put", "room", "x", check=False).returncode == 0), ROOM_SECONDS, SessionError, turn=0.5)

        self.at_the_end("etcd", make_room)

    OF_NODES = ("kill_node", "stop_node", "kill_follower", "cut_node", "fill_node", "turn_clock")
    OF_MEMBERS = ("kill_member", "stop_member", "slow_member", "cut_member", "fill_member", "turn_member_clock")
    OF_ETCD = ("compact", "use_up_quota")

    def one(self):
        """Whether there was somebody to hurt."""
        kind = self.random.choice([kind for kind in (*self.OF_NODES, *self.OF_MEMBERS, *self.OF_ETCD) if kind not in self.impossible])
        who = self.some_node() if kind in self.OF_NODES else self.some_member() if kind in self.OF_MEMBERS else ()
        if kind == "use_up_quota" and not self.hurt.isdisjoint(range(MEMBERS)):
            who = None
        if who is not None:
            getattr(self, kind)(*(() if who == () else (who,)))
            self.done[kind] = self.done.get(kind, 0) + 1
        for action in self.random.choices((self.push, self.add, self.delete), (2, 3, 1), k=2):
            action()
        self.run_late()
        hold(self.random.uniform(0, 0.3))
        return who is not None

    # --- what must hold ---

    def settle(self):
        """What is wrong in the end."""
        self.run_late(everything=True)
        self.etcd.wait(60)
        self.push()
        problems = []

        def is_well():
            problems[:] = self.problems()
            return not problems

        until("a fleet that is well", is_well, SETTLE_SECONDS, error=None, turn=0.5)
        return problems

    def problems(self):
        """Also what `fleet status` tells: a node whose lease went when a clock of etcd jumped is alive again when it next says so."""
        problems = [text for node in self.nodes for text in self.problems_of(node)]
        return problems + [f"{name}: `fleet status` says {one['state']}, revision {one['revision']}, alive {one['is_alive']}; the newest is "
                           f"{self.revision}" for name, one in self.operator.nodes().items()
                           if problems or (one["revision"], one["is_alive"]) != (self.revision, True)]

    def problems_of(self, node):
        now = time.monotonic()
        wanted = {text for text, end in self.entries.items() if end is None or end > now + 1}
        may_be = wanted | self.doubtful | {text for text, end in self.entries.items() if end is not None and abs(end - now) < 10}
        if self.operator.nodes().get(node.name, {}).get("revision") != self.revision:
            return [f"{node.name} does not say that it enforces revision {self.revision}: {node.call('status').get('fleet')}"]
        if not node.watch.fates([number_of(marker(self.newest))])[number_of(marker(self.newest))]:
            return [f"{node.name} does not drop what revision {self.revision} drops"]
        held = {entry["entry"] for entry in all_entries(node) if not entry.get("expired")}
        gone = {text for text in self.entries if text not in may_be}
        fates = node.watch.fates([number_of(text) for text in sorted(wanted | gone)])
        return [f"{node.name}: entry {text} was acknowledged and is missing" for text in sorted(wanted - held)] + \
               [f"{node.name}: entry {text} is there and should not be" for text in sorted(held - may_be)] + \
               [f"{node.name}: a packet from {text} passes, and it was acknowledged" for text in sorted(wanted) if not fates[number_of(text)]] + \
               [f"{node.name}: a packet from {text} is dropped, and its time is over" for text in sorted(gone) if fates[number_of(text)]]


def all_entries(node):
    after = None
    while True:
        answer = node.call("entries", name="jail", **({"after": after} if after else {}))
        yield from answer["entries"]
        after = answer.get("next")
        if not after:
            return


def start(node):
    node.start(extra=["--bpf-dir", node.path("bpf")])


def make_node(stack, build, etcd, number):
    network = Network(100 + number)
    stack.callback(network.close)
    network.run("ip", "link", "add", "in0", "numrxqueues", "1", "numtxqueues", "1", "type", "veth", "peer", "name", "in1")
    for end in ("in0", "in1"):
        network.run("ip", "link", "set", end, "up")
    node = Node(build, etcd, f"n{number}", more="targets: [{xdp: {interfaces: [in0]}}]\n", network=network)
    stack.enter_context(node)
    node.has_dataplane = False
    for name in ("bpf", "controld-state"):
        os.mkdir(node.path(name), 0o700)
    mount_bpf(node.path("bpf"))
    mount(node.state_path("controld"), text=NODE_DISK)
    for name in ("bpf", "controld-state"):
        node.at_exit(lambda path=node.path(name): ctypes.CDLL(None).umount2(path.encode(), MNT_DETACH))
    node.switch = Switch(node.path("faults"))
    node.environment = node.switch.environment(build)
    stack.callback(lambda: node.controld and node.controld.send_signal(signal.SIGCONT))
    return node


def run(build, faults=200, nodes=3, seed=1, progress=say):
    own_mounts()
    own_network()
    Network.make_switch()
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = tempfile.mkdtemp(prefix="weir-operator-")
        stack.callback(lambda: shutil.rmtree(folder, ignore_errors=True))
        networks = [Network(10 + member) for member in range(MEMBERS)]
        for network in networks:
            stack.callback(network.close)
        etcd = Etcd(MEMBERS, networks=networks, more=["--quota-backend-bytes", str(QUOTA_MIB << 20)])
        etcd.data = lambda member: os.path.join(etcd.folder, f"disk{member}", "data")
        for member in range(MEMBERS):
            disk = os.path.dirname(etcd.data(member))
            os.mkdir(disk)
            mount(disk, text=MEMBER_DISK)
            stack.callback(lambda disk=disk: ctypes.CDLL(None).umount2(disk.encode(), MNT_DETACH))
        stack.enter_context(etcd)
        all_nodes = [make_node(stack, build, etcd, number) for number in range(nodes)]
        rig = Faults(etcd, all_nodes, Operator(build, etcd, folder), seed)
        for node in all_nodes:
            start(node)
            node.wait_enforced()
            node.watch = Watch(node, lambda: rig.pushes)
            stack.callback(node.watch.stop)
            node.watch.start()
        if reason := why_not():
            progress(f"fleet: skipped: clocks of members: {reason}")
            rig.impossible = ("turn_member_clock",)
        rig.push()
        hurt = 0
        while hurt < faults:
            is_hurt = rig.one()
            hurt += is_hurt
            if is_hurt and hurt % 20 == 0:
                progress(f"fleet: {hurt} of {faults} faults in {time.monotonic() - begin:.0f} s, {rig.pushes} revisions, {len(rig.entries)} entries")
        try:
            wrong = rig.settle()
        except SessionError as error:
            wrong = [str(error)]
        older = [text for node in all_nodes for text in node.watch.older]
        wrong += [text for node in all_nodes for text in node.watch.wrong]
        if wrong or older:
            for node in all_nodes:
                progress(f"{node.name}:\n" + "\n".join(node.log("controld").splitlines()[-25:]))
        return {"wrong": wrong, "older": older, "faults": rig.done, "revisions": rig.pushes, "entries": rig.next_entry,
                "packets": sum(node.watch.packets for node in all_nodes), "seed": seed, "seconds": time.monotonic() - begin}


if __name__ == "__main__":
    report(run, __doc__, faults=200, nodes=3)
