"""The panic switch in each situation that may hold it up: until when do the packets of a data plane and of XDP meet another
verdict, after `controlctl bypass` or `detach` was started?

    python3 scripts/lib/panic.py --build DIR [--entries N] [--times N] [--only TEXT]      as root

Prints JSON: {"rows": [{"situation", "what", "n", "worst_ms", "still_ms", "own_ms", "median_ms", "said_ms", "answered"}], "stops": [...],
...}: said_ms is when controlctl had said how it went, at the latest; still_ms is for how long a processor stood still during the worst order
(standstill.py); own_ms is the longest that an order took without the time in which one did. In a network, a mount table and a BPF file
system of its own. scripts/lib/figures_panic.py makes a figure of it; tests/smoke/bypass_situations.py tries the same situations with few
entries. Standard library only.
"""

import argparse
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import selectors
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from capture import read_capture, write_capture  # noqa: E402 (path first)
from namespaces import bind, mount_bpf, own_mounts, own_network  # noqa: E402
from samples import make_samples  # noqa: E402
from session import Memory, Session, SessionError, pause, tail  # noqa: E402
from standstill import Standstills  # noqa: E402

CLIENTS = 64                       # on each socket
SOCKETS = (("controld.sock", socket.SOCK_STREAM), ("controld.sock.bypass", socket.SOCK_STREAM),
           ("dataplane.sock", socket.SOCK_SEQPACKET), ("dataplane.sock.bypass", socket.SOCK_SEQPACKET))
PATIENCE_SECONDS = 60
LOOK_SECONDS = 0.0005              # between two looks at the packets
FEWEST_PACKETS = 1000              # between two looks that tell how packets are judged
MISSING_FRAMES = 10                # one after the other, that did not come through XDP: it drops them
DISK_BYTES, DISK_FILES = 4 << 30, 256
STATE_FOLDERS, LOGS = ("dataplane-state", "controld-state"), ("dataplane.log", "controld.log")
WIRE_HEADER = struct.Struct("<IHHII")  # common/wire.h: magic, version, type, bytes of the body, sequence
WIRE_MAGIC, WIRE_VERSION, WIRE_STATUS, WIRE_STATS = 0x52494557, 3, 1, 3
STATS_HEAD = struct.Struct("<13Q")     # generation, start, then packets, bytes, passed, dropped, ..., bypassed
BYPASS_OF_STATUS = WIRE_HEADER.size + 32 + 16 + 8 * 3 + 4 * 2
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878                                     # ioctl_fifreeze(2)
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000  # ptrace(2)
BLOCKED_SOURCE = "203.0.113.250"
INTERFACE, OTHER_END = "in0", "out0"


def ask_dataplane(path, kind):
    """The answer's bytes, over a connection of its own."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(path)
        connection.send(WIRE_HEADER.pack(WIRE_MAGIC, WIRE_VERSION, kind, 0, 1))
        return connection.recv(1 << 17)


def controlctl(session, *arguments):
    """A controlctl that runs."""
    begin = time.monotonic()
    process = subprocess.Popen([os.path.join(session.build, "control/controlctl"), *arguments, "--json", "--socket",
                                session.path("controld.sock")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.begin = begin
    return process


class DataplanePackets:
    """How a data plane judges its packets, by its own counters."""

    def __init__(self, path):
        self.path = path
        self.connection = None
        self.before = None

    def begin(self):
        self.before = None

    def counters(self):
        """(packets, dropped, bypassed); None: it has to be asked again."""
        try:
            if self.connection is None:
                self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self.connection.settimeout(PATIENCE_SECONDS)
                self.connection.connect(self.path)
            self.connection.send(WIRE_HEADER.pack(WIRE_MAGIC, WIRE_VERSION, WIRE_STATS, 0, 1))
            answer = self.connection.recv(1 << 17)
            if len(answer) < WIRE_HEADER.size + STATS_HEAD.size:  # closed, or refused: too many clients
                raise ConnectionError("no counters")
        except OSError:
            self.connection.close()
            self.connection = None
            return None
        numbers = STATS_HEAD.unpack_from(answer, WIRE_HEADER.size)
        return numbers[3], numbers[6], numbers[12]

    def is_bypassed(self):
        """True, False, or None: too few packets since the last look, or some of either kind."""
        now = self.counters()
        if now is None:
            return None
        if self.before is None:
            self.before = now
            return None
        packets, dropped, bypassed = (new - old for new, old in zip(now, self.before))
        if packets < FEWEST_PACKETS:
            return None
        self.before = now
        return False if bypassed == 0 else True if dropped == 0 else None


class DataplaneStatus:
    """What a data plane says of itself: for when its worker cannot run."""

    def __init__(self, path):
        self.path = path

    def begin(self):
        pass

    def is_bypassed(self):
        return struct.unpack_from("<I", ask_dataplane(self.path, WIRE_STATUS), BYPASS_OF_STATUS)[0] != 0


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SessionError(f"ip {' '.join(arguments)}: {done.stderr}")


def make_interfaces():
    one = ("numrxqueues", "1", "numtxqueues", "1")
    ip("link", "add", OTHER_END, *one, "type", "veth", "peer", "name", INTERFACE, *one)
    for name in (INTERFACE, OTHER_END):
        ip("link", "set", name, "up")


def frame(number):
    """UDP from the source that is blocked."""
    payload = struct.pack(">HHHHQ", 1024, 53, 16, 0, number)
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, 17, 0, socket.inet_aton(BLOCKED_SOURCE),
                         socket.inet_aton("192.0.2.1"))
    return bytes.fromhex("0200000000020200000000010800") + header + payload


class XdpPackets:
    """How XDP judges frames that its policy blocks: sent into one end of a veth pair, they come through or do not."""

    def __init__(self):
        self.near, self.far = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2))
        self.near.bind((OTHER_END, 0x0800))
        self.far.bind((INTERFACE, 0x0800))
        self.far.setblocking(False)
        self.sent = self.begun = self.last_came = 0

    def begin(self):
        self.begun = self.last_came = self.sent

    def is_bypassed(self):
        """None: it is not clear yet."""
        self.sent += 1
        self.near.send(frame(self.sent))
        with contextlib.suppress(BlockingIOError):
            while True:
                came = self.far.recv(256)
                if len(came) >= 50:
                    self.last_came = max(self.last_came, struct.unpack_from(">Q", came, 42)[0])
        if self.last_came > self.begun and self.sent - self.last_came < MISSING_FRAMES:
            return True
        return False if self.sent - max(self.last_came, self.begun) >= MISSING_FRAMES else None


class NoDisk(Exception):
    """This machine cannot make one; the text says why."""


class Disk:
    """A file system of its own for the state folders and the logs, which can be full, and can stop to answer."""

    def __init__(self, session):
        self.image, self.folder = session.path("disk.img"), session.path("disk")
        with open(self.image, "wb") as file:
            file.truncate(DISK_BYTES)
        os.mkdir(self.folder)
        for command in (["mkfs.ext4", "-q", "-F", "-m", "0", "-N", str(DISK_FILES), self.image],
                        ["mount", "-o", "loop", self.image, self.folder]):
            try:
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            except FileNotFoundError as missing:
                raise NoDisk(f"no {missing.filename}: it makes a disk that can be full") from None
            if done.returncode != 0:
                raise NoDisk(f"no disk of its own: {' '.join(done.stdout.split())}")
        self.mounted = [self.folder]
        for name in STATE_FOLDERS:
            for path in (session.path(name), os.path.join(self.folder, name)):
                os.mkdir(path, 0o700)
            bind(os.path.join(self.folder, name), session.path(name))
            self.mounted.insert(0, session.path(name))
        for name in LOGS:
            os.symlink(os.path.join(self.folder, name), session.path(name))
        session.at_exit(self.close)

    def close(self):
        for path in self.mounted:
            subprocess.run(["umount", "--lazy", path], check=False)

    @contextlib.contextmanager
    def frozen(self):
        """Whoever writes to it waits, and nothing ends that."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, FIFREEZE, 0)
            try:
                yield
            finally:
                fcntl.ioctl(folder, FITHAW, 0)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def full(self):
        """No block and no file more."""
        taken = []
        try:
            path = os.path.join(self.folder, "fills it")
            taken.append(path)
            with open(path, "wb") as file:
                for chunk in (64 << 20, 1 << 20, 4096):
                    with contextlib.suppress(OSError):
                        while True:
                            os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, chunk)
            with contextlib.suppress(OSError):
                while True:
                    path = os.path.join(self.folder, f"takes a file {len(taken)}")
                    os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
                    taken.append(path)
            yield
        finally:
            for path in taken:
                os.unlink(path)


class Held:
    def __init__(self, task):
        self.task = task

    def reap(self):
        """Its process can only end when this was called: a thread that is held is waited for by who holds it."""
        if self.task:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.task, WALL | os.WNOHANG)


@contextlib.contextmanager
def held(task):
    """A thread that does not run."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long

    def ptrace(request):
        if libc.ptrace(request, task, None, None) != 0:
            number = ctypes.get_errno()
            if number != errno.ESRCH:  # it ended meanwhile
                raise OSError(number, f"ptrace {request:#x} of {task}: {os.strerror(number)}")

    ptrace(PTRACE_SEIZE)
    ptrace(PTRACE_INTERRUPT)
    os.waitpid(task, WALL)
    try:
        yield Held(task)
    finally:
        ptrace(PTRACE_DETACH)


def threads(process):
    """{thread: name}"""
    named = {}
    for task in os.listdir(f"/proc/{process.pid}/task"):
        with open(f"/proc/{process.pid}/task/{task}/comm", encoding="ascii") as file:
            named[int(task)] = file.read().strip()
    return named


def connect_silent(session):
    connections = []
    for name, kind in SOCKETS:
        for _ in range(CLIENTS):
            connections.append(socket.socket(socket.AF_UNIX, kind))
            connections[-1].connect(session.path(name))  # waits while the queue is full
    return connections


@contextlib.contextmanager
def silent_clients(session):
    connections = connect_silent(session)
    try:
        yield
    finally:
        for connection in connections:
            connection.close()


def be_busy(folder):
    """Asks what changes nothing, on CLIENTS connections to each socket, without a pause. What the sockets of the switch do not
    answer, they refuse: then another connection."""
    questions = {socket.SOCK_STREAM: b'{"command": "status"}\n',
                 socket.SOCK_SEQPACKET: WIRE_HEADER.pack(WIRE_MAGIC, WIRE_VERSION, WIRE_STATUS, 0, 1)}
    selector = selectors.DefaultSelector()

    def begin(place):
        connection = socket.socket(socket.AF_UNIX, place[1])
        connection.setblocking(False)
        try:
            connection.connect(os.path.join(folder, place[0]))
            connection.send(questions[place[1]])
        except OSError:  # a full queue, for one
            connection.close()
            return False
        selector.register(connection, selectors.EVENT_READ, place)
        return True

    def go_on(connection, kind):
        try:
            if not connection.recv(1 << 17) or kind == socket.SOCK_STREAM:
                return False
            connection.send(questions[kind])
            return True
        except OSError:
            return False

    to_begin = [place for place in SOCKETS for _ in range(CLIENTS)]
    answers = 0
    while True:
        to_begin = [place for place in to_begin if not begin(place)]
        for key, _ in selector.select(0.001 if to_begin else None):
            if not go_on(key.fileobj, key.data[1]):
                selector.unregister(key.fileobj)
                key.fileobj.close()
                to_begin.append(key.data)
            answers += 1
            if answers == 1000:
                print("busy", flush=True)


@contextlib.contextmanager
def busy_clients(session):
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--be-busy", session.folder], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def descriptors(process):
    return [int(number) for number in os.listdir(f"/proc/{process.pid}/fd")]


@contextlib.contextmanager
def few_descriptors(session):
    """Both programs may open four more than they have, and clients take them."""
    before = []
    for process in (session.controld, session.dataplane):
        limit = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        before.append((process.pid, limit))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (max(descriptors(process)) + 5, limit[1]))
    try:
        with silent_clients(session):
            yield
    finally:
        for pid, limit in before:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)


class Rig:
    """A data plane that loops a capture, XDP on an interface, and a controld for both. entries: of the large list. times: pairs
    of orders in each situation."""

    def __init__(self, session, entries, times):
        self.session, self.entries, self.times = session, entries, times
        self.policy, self.bpf_dir = session.path("weir.yaml"), session.path("bpf")
        self.is_large = False
        self.turn = 0
        self.disk = Disk(session)
        os.mkdir(self.bpf_dir)
        mount_bpf(self.bpf_dir)
        session.at_exit(lambda: subprocess.run(["umount", "--lazy", self.bpf_dir], check=False))
        make_interfaces()
        make_samples(session.folder, flows=1000, frames=5000)
        capture = read_capture(session.path("capture.pcap"))
        write_capture(session.path("in0.pcap"), capture)
        with open(self.policy, encoding="utf-8") as file:
            self.base = file.read()
        with open(session.path("large.txt"), "w", encoding="ascii") as file:
            for begin in range(0, entries, 1 << 20):
                file.write("".join(f"{20 + (i >> 16) % 70}.{i >> 8 & 255}.{i & 255}.{i >> 22 & 255}\n"
                                   for i in range(begin, min(begin + (1 << 20), entries))))
        self.memory = Memory(len(capture.frames) + 2048, capture.longest())
        self.start_dataplane()
        self.use("small")
        self.start_controld()
        self.packets = {"data plane": DataplanePackets(session.path("dataplane.sock")), "XDP": XdpPackets()}
        self.status = DataplaneStatus(session.path("dataplane.sock"))
        self.wait_until_judged(False)

    # Programs and policies.

    def start_dataplane(self):
        self.session.start_dataplane("forward: hairpin\nports: [{port: 0, queues: 1}]",
                                     ["net_pcap0,rx_pcap=in0.pcap,infinite_rx=1"], 1, self.memory)

    def launch_controld(self):
        """Does not wait for it."""
        session = self.session
        session.controld = session._start("controld", [  # pylint: disable=protected-access
            os.path.join(session.build, "control/controld"), "--config", self.policy, "--socket", session.path("controld.sock"),
            "--state-dir", session.path("controld-state"), "--bpf-dir", self.bpf_dir])

    def start_controld(self):
        self.launch_controld()
        self.session.wait("controld to have compiled its policy", self.session.is_started)
        self.wait_enforced()

    def wait_enforced(self):
        self.session.wait("both targets to enforce the policy", lambda: all(
            target["connected"] and target["acknowledged"] for target in self.session.call("status")["targets"]))

    def use(self, size):
        """Writes the next policy: each has to be compiled anew."""
        self.turn += 1
        targets = (f"targets:\n  - dataplane: {self.session.path('dataplane.sock')}\n"
                   f"  - xdp: {{interfaces: [{INTERFACE}], attach: auto}}\n")
        lists = f"  - {{name: of-the-wire, action: drop, entries: [{BLOCKED_SOURCE}, 203.0.113.{self.turn % 50}]}}\n"
        if size == "large":
            lists += f"  - {{name: large, action: drop, match: {('src', 'dst')[self.turn % 2]}, file: large.txt}}\n"
        with open(self.policy + ".new", "w", encoding="utf-8") as file:
            file.write(self.base.replace("lists:\n", targets + "lists:\n", 1) + lists)
        os.replace(self.policy + ".new", self.policy)

    def reload(self, size):
        self.use(size)
        answer = self.session.call("reload")
        if not answer["ok"]:
            raise SessionError(f"a reload failed: {answer}")

    def begin_reload(self, size):
        self.use(size)
        return controlctl(self.session, "reload")

    def phase(self):
        """What a reload is at; empty: none is under way."""
        status = self.session.call("status")
        phase = status.get("reloading") or ""
        if phase not in ("publish", "acknowledge"):
            return phase
        names = ["XDP" if "interfaces" in target else "the data plane" for target in status["targets"] if not target["acknowledged"]]
        return "publication to " + " and ".join(names) if names else "after its publication"

    # Orders.

    def wait_until(self, planes, on, begin=0.0, process=None):
        """{plane: milliseconds since begin} when its packets are judged so."""
        took = {}
        for plane in planes.values():
            plane.begin()
        while len(took) < len(planes):
            for name, plane in planes.items():
                if name not in took and plane.is_bypassed() == on:
                    took[name] = (time.monotonic() - begin) * 1000
            if time.monotonic() - begin > PATIENCE_SECONDS and begin:
                said = process.communicate(timeout=PATIENCE_SECONDS) if process else ""
                raise SessionError(f"waited in vain for bypass {'on' if on else 'off'} on {set(planes) - set(took)}: {said}")
            time.sleep(LOOK_SECONDS)
        return took

    def wait_until_judged(self, on):
        self.wait_until(self.packets, on, time.monotonic())

    def order(self, on, planes=None):
        """({plane: milliseconds}, the process, which may still wait)"""
        begin = time.monotonic()
        process = controlctl(self.session, "bypass", "on" if on else "off")
        return self.wait_until(planes or self.packets, on, begin, process), process

    def detach(self):
        begin = time.monotonic()
        process = controlctl(self.session, "detach")
        return self.wait_until({"XDP": self.packets["XDP"]}, True, begin, process), process


def answer_of(process):
    """(exit code, the answer, standard error) of a controlctl."""
    out, err = process.communicate(timeout=2 * PATIENCE_SECONDS)
    try:
        return process.returncode, json.loads(out), err
    except ValueError:
        raise SessionError(f"controlctl ended with {process.returncode}: {out}{err}") from None


class Measure:
    """Orders, and how long they took, by situation. check(situation, what, ms, code, answer, err): looks at each of them."""

    def __init__(self, rig, check=None, still=None):
        self.rig, self.check, self.still = rig, check, still
        self.results = {}  # (situation, what): [(ms, who, ms that a processor stood still, ms until controlctl ended)]

    def take(self, situation, what, took, process):
        code, answer, err = answer_of(process)
        said_ms = (time.monotonic() - process.begin) * 1000
        who = "controld" if answer.get("controld", True) else "controlctl"
        for plane, ms in took.items():
            still_ms = self.still.ms(process.begin, process.begin + ms / 1000) if self.still else 0.0
            self.results.setdefault((situation, f"{what}, {plane}"), []).append((ms, who, still_ms, said_ms))
            if self.check:
                self.check(situation, what, ms, code, answer, err)

    def bypass(self, situation, planes=None):
        """On and off."""
        for on in (True, False):
            self.take(situation, "bypass", *self.rig.order(on, planes))

    def detach(self, situation):
        self.take(situation, "detach", *self.rig.detach())

    def rows(self):
        rows = []
        for (situation, what), results in self.results.items():
            ms = [one[0] for one in results]
            answered = {who: sum(1 for one in results if one[1] == who) for who in ("controld", "controlctl")}
            rows.append({"situation": situation, "what": what, "n": len(ms), "worst_ms": round(max(ms), 1),
                         "still_ms": round(max(results)[2], 1), "own_ms": round(max(one[0] - one[2] for one in results), 1),
                         "median_ms": round(statistics.median(ms), 1), "said_ms": round(max(one[3] for one in results), 1),
                         "answered": {who: n for who, n in answered.items() if n}})
        return rows


def row_text(row):
    answered = " and ".join(f"{n} by {who}" for who, n in row["answered"].items())
    return (f"{row['situation']}: {row['what']}: worst {row['worst_ms']:.0f} ms (for {row['still_ms']:.0f} of "
            f"them a processor stood still), {row['own_ms']:.0f} ms without such time, median {row['median_ms']:.0f} ms of {row['n']}, "
            f"answered {answered}, within {row['said_ms']:.0f} ms")


def repeated(rig, measure, name, held_up=None):
    """Pairs of orders while held_up() lasts, and detach, as often."""
    with held_up() if held_up else contextlib.nullcontext():
        for _ in range(rig.times):
            measure.bypass(name)
        measure.detach(name)
    for _ in range(rig.times - 1):
        rig.reload("small")  # attached again
        with held_up() if held_up else contextlib.nullcontext():
            measure.detach(name)
    rig.reload("small")


def at_rest(rig, measure):
    repeated(rig, measure, "at rest")


def silent(rig, measure):
    repeated(rig, measure, f"{CLIENTS} silent clients on each socket", lambda: silent_clients(rig.session))


def busy(rig, measure):
    repeated(rig, measure, f"{CLIENTS} busy clients on each socket", lambda: busy_clients(rig.session))


def descriptors_taken(rig, measure):
    repeated(rig, measure, "no descriptor left in either program", lambda: few_descriptors(rig.session))


@contextlib.contextmanager
def stopped(process):
    pause(process.pid)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def controld_stopped(rig, measure):
    repeated(rig, measure, "controld is stopped", lambda: stopped(rig.session.controld))


@contextlib.contextmanager
def dead(rig):
    rig.session.kill("controld")
    try:
        yield
    finally:
        rig.start_controld()


def controld_dead(rig, measure):
    repeated(rig, measure, "controld is dead", lambda: dead(rig))


def full_disk(rig, measure):
    with rig.disk.full():
        for _ in range(rig.times):
            measure.bypass("the disk is full")
        rig.session.kill("controld")
        for _ in range(rig.times):
            measure.bypass("the disk is full, controld is dead")
    rig.start_controld()


def hung_disk(rig, measure):
    name = "the disk does not answer"
    with rig.disk.frozen():
        for _ in range(rig.times):
            measure.bypass(name)
    rig.session.kill("controld")  # with orders that it has yet to write
    with rig.disk.frozen():
        for _ in range(rig.times):
            measure.bypass(name + ", controld is dead")
        measure.detach(name + ", controld is dead")
    rig.start_controld()
    for _ in range(rig.times):
        with rig.disk.frozen():
            measure.detach(name)
        rig.reload("small")  # attached again


def dataplane_dead(rig, measure):
    """What was ordered meanwhile it is told when it is back."""
    xdp = {"XDP": rig.packets["XDP"]}
    for _ in range(rig.times):
        rig.session.kill("dataplane")
        measure.bypass("the data plane is dead", xdp)
        measure.take("the data plane is dead", "bypass", *rig.order(True, xdp))
        rig.start_dataplane()
        rig.wait_until_judged(True)
        rig.wait_enforced()
        measure.bypass("the data plane is back")
        rig.wait_until_judged(False)


def dataplane_stopped(rig, measure):
    xdp = {"XDP": rig.packets["XDP"]}
    with stopped(rig.session.dataplane):
        for _ in range(rig.times):
            measure.bypass("the data plane is stopped", xdp)
        measure.take("the data plane is stopped", "bypass", *rig.order(True, xdp))
    rig.wait_until_judged(True)
    measure.take("the data plane goes on", "bypass", *rig.order(False))


def held_grace(rig, measure):
    """The worker does not run, so a publication waits for it; what is asked is the data plane's status."""
    session = rig.session
    done = len(session.log("dataplane"))
    with held(session.dataplane.pid):  # the worker's thread
        process = rig.begin_reload("small")
        session.wait("the publication to wait for the worker",
                     lambda: "has not been done with its burst" in session.log("dataplane")[done:], PATIENCE_SECONDS)
        for _ in range(rig.times):
            measure.bypass("a publication waits for a worker that does not run", {"data plane": rig.status, "XDP": rig.packets["XDP"]})
    answer_of(process)
    rig.wait_until_judged(False)
    rig.wait_enforced()


def large(rig, what):
    return f"{what} with {rig.entries:,} entries"


def reload(rig, measure):
    for _ in range(2):
        process = rig.begin_reload("large")
        while process.poll() is None:
            phase = rig.phase()
            measure.bypass(f"{large(rig, 'a reload')}: {phase}" if phase else large(rig, "before and after a reload"))
        answer_of(process)


def reload_and_detach(rig, measure):
    """A reload attaches again when it publishes: detach counts once before, and once while it is under way."""
    for begin in ("read", "build", "prove"):
        rig.reload("small")  # attached again
        process = rig.begin_reload("large")
        rig.session.wait(f"the phase {begin}", lambda wanted=begin: rig.phase() == wanted or process.poll() is not None)
        if process.poll() is None:
            measure.detach(f"{large(rig, 'a reload')}: {begin}")
        rig.session.wait("the publication", lambda: rig.phase().startswith("publication") or process.poll() is not None)
        if process.poll() is None:
            phase = rig.phase()
            rig.session.wait("XDP to be attached", lambda: not passes(rig) or process.poll() is not None)
            if not passes(rig):
                measure.detach(f"{large(rig, 'a reload')}: {phase}")
        process.communicate()
    rig.reload("large")


def passes(rig):
    plane = rig.packets["XDP"]
    plane.begin()
    while (found := plane.is_bypassed()) is None:
        time.sleep(LOOK_SECONDS)
    return found


def start(rig, measure):
    """Until it is ready, after a crash; with the last good of as many entries."""
    for _ in range(2):
        rig.session.kill("controld")
        rig.launch_controld()
        while not rig.session.is_started():
            measure.bypass(large(rig, "a start of controld"))
        rig.wait_enforced()


def publication_with_slow_disk(rig, measure):
    """The disk of the data plane hangs while it writes what is published."""
    name = f"a publication of {rig.entries:,} entries, the disk does not answer"
    process = rig.begin_reload("large")
    rig.session.wait("the publication", lambda: rig.phase().startswith("publication") or process.poll() is not None)
    with rig.disk.frozen():
        for _ in range(rig.times):
            measure.bypass(name)
    process.communicate()
    rig.wait_enforced()


SMALL = (at_rest, silent, busy, descriptors_taken, controld_stopped, controld_dead, dataplane_dead, dataplane_stopped, full_disk, hung_disk,
         held_grace)
LARGE = (reload, publication_with_slow_disk, reload_and_detach, start)


def run(rig, measure, only="", say=lambda text: None):
    """All situations whose function's name has `only` in it."""
    for situation in (*SMALL, *LARGE):
        if only not in situation.__name__:
            continue
        say(f"panic: {situation.__name__.replace('_', ' ')}")
        told = len(measure.rows())
        situation(rig, measure)
        rig.wait_until_judged(False)
        for row in measure.rows()[told:]:
            say(row_text(row))


def stop_ms(rig, name):
    begin = time.monotonic()
    code = rig.session.stop(name)
    if code != 0:
        raise SessionError(f"{name} ended with {code}")
    return round((time.monotonic() - begin) * 1000, 1)


def stops(rig, say=lambda text: None):
    """How long the programs take to end when they are asked to (SIGTERM), in the middle of a reload or publication."""
    rows = []
    for phase in ("", "read", "build", "prove", "publication"):
        say(f"panic: SIGTERM to controld, {phase or 'at rest'}")
        process = rig.begin_reload("large") if phase else None
        if phase:
            rig.session.wait(f"the phase {phase}", lambda wanted=phase: rig.phase().startswith(wanted) or process.poll() is not None)
        rows.append({"program": "controld", "at": phase or "rest", "ms": stop_ms(rig, "controld")})
        if process:
            process.communicate()
        rig.start_controld()
    for at in ("rest", "publication"):
        say(f"panic: SIGTERM to the data plane, {at}")
        process = None
        if at == "publication":
            process = rig.begin_reload("large")
            rig.session.wait("the publication", lambda: "data plane" in rig.phase() or process.poll() is not None)
        rows.append({"program": "data plane", "at": at, "ms": stop_ms(rig, "dataplane")})
        rig.start_dataplane()
        if process:
            process.communicate()
        rig.wait_enforced()
    return rows


@contextlib.contextmanager
def saying_logs(session, say):
    try:
        yield
    except BaseException:
        for name in ("dataplane", "controld"):
            say(f"{name}:\n{tail(session.log(name))}")
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", metavar="DIR")
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=5, help="pairs of orders in each situation")
    parser.add_argument("--only", default="", metavar="TEXT", help="situations whose name has it")
    parser.add_argument("--be-busy", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.be_busy:
        be_busy(arguments.be_busy)

    def say(text):
        print(text, file=sys.stderr, flush=True)

    own_network()
    own_mounts()
    with Session(arguments.build) as session, saying_logs(session, say), Standstills() as still:
        rig = Rig(session, arguments.entries, arguments.times)
        measure = Measure(rig, still=still)
        begin = os.times()
        run(rig, measure, arguments.only, say)
        rows = stops(rig, say) if not arguments.only or arguments.only in "stops" else []
        spent = os.times().elapsed - begin.elapsed
        print(json.dumps({"rows": measure.rows(), "stops": rows, "seconds": round(spent), "load": os.getloadavg()}))


if __name__ == "__main__":
    main()
