"""Does bypass hold for packets now? Of a data plane its own counters or its status tell, of XDP frames that its policy blocks,
sent into a veth pair. Standard library only."""

import contextlib
import socket
import struct
import subprocess

from session import SessionError
from wire import WIRE_HEADER, WIRE_STATS, WIRE_STATUS, question

PATIENCE_SECONDS = 60
FEWEST_PACKETS = 1000              # between two looks that tell how packets are judged
MISSING_FRAMES = 10                # one after the other, that did not come through XDP: it drops them
STATS_HEAD = struct.Struct("<13Q")     # generation, start, then packets, bytes, passed, dropped, ..., bypassed
BYPASS_OF_STATUS = WIRE_HEADER.size + 32 + 16 + 8 * 3 + 4 * 2
BLOCKED_SOURCE = "203.0.113.250"
INTERFACE, OTHER_END = "in0", "out0"


def ask_dataplane(path, kind):
    """The answer's bytes, over a connection of its own."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(path)
        connection.send(question(kind))
        return connection.recv(1 << 17)


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
            self.connection.send(question(WIRE_STATS))
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
