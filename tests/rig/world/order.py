"""Numbered flows through a real data plane while policies are exchanged; every frame is accounted for. Standard library only.

Two ways in and out:
  pipes  net_pcap on named pipes: as fast as it goes, bursts are full, the pair's other port is idle
  veth   net_af_packet: frames come in bunches of any size with pauses between, so bursts are of any size, and empty. Root
"""

import os
import random
import socket
import struct
import threading

from numbered import DROPPED, FRAME_BYTES, PASSED, TAIL, Book, World, mixture
from pace import hold
from session import Memory, Session, SessionError
from turns import make_interfaces, packet_socket
from until import until

PCAP_HEADER = struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
RECORD = struct.pack("<IIII", 0, 0, FRAME_BYTES, FRAME_BYTES)
RECORD_TAIL = struct.Struct(f">{len(RECORD) + FRAME_BYTES - TAIL.size}xII")
TAIL_AT = FRAME_BYTES - TAIL.size
LONGEST = 2048            # of frames that af_packet has room for
AT_ONCE = 256             # frames written to a pipe
SILENT_SECONDS = 20       # without a frame: what has not come is lost
IN_FLIGHT = 256           # on veth: fewer than any ring holds, so that none is lost on the way
ORDER = 1 << 16           # flows in a row, before the mixture comes again
SHARE_OF_VETH = 0.1       # of the frames: it is that much slower


class Pipes:
    vdevs = ("net_pcap0,rx_pcap=in.pcap", "net_pcap1,tx_pcap=passed.pcap", "net_pcap2,tx_pcap=dropped.pcap")
    without = ()
    config = "forward: pair\nports: [{port: 0}, {port: 1}]\ndrop_port: 2"

    def __init__(self, session, book):
        self.book, self.path = book, session.path
        for name in ("in", "passed", "dropped"):
            os.mkfifo(session.path(name + ".pcap"))
        self.sink = None
        self.opened = threading.Thread(target=self._open, daemon=True)  # the data plane opens the other end
        self.opened.start()
        for output, name in ((PASSED, "passed"), (DROPPED, "dropped")):
            threading.Thread(target=self._read, args=(output, name), daemon=True).start()

    def _open(self):
        self.sink = open(self.path("in.pcap"), "wb", buffering=0)
        self.sink.write(PCAP_HEADER)

    def _read(self, output, name):
        with open(self.path(name + ".pcap"), "rb", buffering=0) as source:
            rest = b""
            while len(rest) < len(PCAP_HEADER):
                rest += source.read(len(PCAP_HEADER) - len(rest))
            rest = b""
            while True:
                more = source.read(1 << 18)
                if not more:
                    return
                rest += more
                whole = len(rest) // RECORD_TAIL.size * RECORD_TAIL.size
                self.book.frames(output, RECORD_TAIL.iter_unpack(memoryview(rest)[:whole]))
                rest = rest[whole:]

    def send(self, frames):
        self.opened.join()
        batch = []
        for frame in frames:
            batch += (RECORD, frame)
            if len(batch) == 2 * AT_ONCE:
                self._write(b"".join(batch))
                batch = []
        self._write(b"".join(batch))
        self.sink.close()

    def _write(self, chunk):
        while chunk:
            chunk = chunk[self.sink.write(chunk):]


class Veth:
    """Sends no more than come back."""
    vdevs = ("net_af_packet0,iface=in0", "net_af_packet1,iface=drop0")
    without = ("v4 first-fragment", "v4 later-fragment")  # af_packet lets the kernel put fragments together
    config = "forward: hairpin\nports: [{port: 0}]\ndrop_port: 1"

    def __init__(self, _session, book):
        self.book, self.random = book, random.Random(1)
        self.sockets = {PASSED: packet_socket("in1"), DROPPED: packet_socket("drop1")}
        for output in self.sockets:
            threading.Thread(target=self._read, args=(output,), daemon=True).start()

    def _read(self, output):
        source = self.sockets[output]
        source.setblocking(True)
        while True:
            frame, address = source.recvfrom(2048)
            if address[2] != socket.PACKET_OUTGOING and len(frame) > FRAME_BYTES // 2:
                self.book.frames(output, (TAIL.unpack(frame[-TAIL.size:]),))

    def send(self, frames):
        sent, bunch = 0, 0
        came = self.book.came
        for frame in frames:
            if bunch == 0:
                bunch = self.random.choice((1, 3, 17, 64, 150))
                hold(self.random.choice((0, 0, 0, 0.0001)))
                until("room for another frame", lambda n=sent: n - sum(came) < IN_FLIGHT - 150, SILENT_SECONDS, SessionError,
                      about=lambda: ": frames are lost", turn=0.00005)
            self.sockets[PASSED].send(frame)
            sent, bunch = sent + 1, bunch - 1


WAYS = {"pipes": Pipes, "veth": Veth}


def numbered_frames(book, order, count):
    """Frames of the flows in their order, round and round."""
    sent, pack_into = book.sent, TAIL.pack_into
    for turn in range(count):
        flow = order[turn % len(order)]
        number = flow.number
        pack_into(flow.template, TAIL_AT, number, sent[number])
        sent[number] += 1
        yield bytes(flow.template)


class Reloads(threading.Thread):
    """The policies in turns, until it is told to stop."""

    def __init__(self, session, texts):
        super().__init__(daemon=True)
        self.session, self.texts = session, texts
        self.over, self.count, self.error = threading.Event(), 0, None

    def run(self):
        while not self.over.is_set():
            write_policy(self.session, self.texts[(self.count + 1) % 2])
            code, out, err = self.session.controlctl("reload", "--json")
            if code != 0:
                self.error = f"reload {self.count + 1} ended with {code}: {out or err}"
                return
            self.count += 1

    def stop(self):
        self.over.set()
        self.join()
        if self.error:
            raise SessionError(self.error)


def write_policy(session, text):
    path = session.path("weir.yaml")
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.rename(path + ".new", path)


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def run_order(session, way, count, seed):
    """`count` frames through a data plane of this session: (Book, number of reloads)."""
    world = World(seed, WAYS[way].without)
    book = Book(world)
    texts = [read(path) for path in world.write(session.folder)]
    order = mixture(world, min(count, ORDER), seed)
    lane = WAYS[way](session, book)
    session.start_dataplane(lane.config, lane.vdevs, 1, Memory(8192, LONGEST))
    write_policy(session, texts[0])
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    reloads = Reloads(session, texts)
    reloads.start()
    lane.send(numbered_frames(book, order, count))
    wait_until_silent(book)
    reloads.stop()
    book.close()
    return book, reloads.count


def measure_order(build, way, count, seed=1):
    """`count` frames through a session of its own: the counts, and faults by kind. veth: takes a network for this process."""
    if way == "veth":
        make_interfaces()
    with Session(build) as session:
        book, reloads = run_order(session, way, count, seed)
        for name in ("controld", "dataplane"):
            code = session.stop(name)
            if code != 0:
                raise SessionError(f"{way}: {name} ended with {code}")
    return {"way": way, "frames": sum(book.came), "flows": len(book.came), "reloads": reloads, "violations": book.violations(),
            "faults": book.faults, "told": book.told}


def wait_until_silent(book):
    """Until every frame is back, or none comes any more."""
    is_one_more = True
    while is_one_more and (came := sum(book.came)) < sum(book.sent):
        is_one_more = until("one more frame", lambda n=came: sum(book.came) > n, SILENT_SECONDS, error=None, turn=0.01)
