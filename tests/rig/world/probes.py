"""Probe packets: what becomes, at this moment, of packets from certain addresses. Root, for interfaces. Standard library only.

They go into one end of a veth, in sweeps. Of a data plane that sends back, what passes comes back there, and what is dropped comes out of its
drop port: each probe is seen. Behind an XDP program only what passes is seen, at the other end of the veth. There a sweep begins and ends
with a guard, an address that nothing lists: an interface with one queue keeps the order, so once the last guard is there, what has not come
before it was dropped. No clock decides that. (A data plane keeps the order within a flow only.)
"""

import errno
import os
import select
import socket
import struct
import subprocess

from namespaces import mount_bpf, own_mounts, own_network
from until import Patience, until

GUARD = 0x0AFFFFFE            # 10.255.255.254: in no list
MOST = 200                    # probes under way: fewer than any ring on their way holds
LOST_SECONDS = 10             # after which a guard is lost that did not come
MAGIC = b"weirprbe"
BEHIND_HEADERS = struct.Struct("!8sIH")  # magic, sweep, place in it
ETHERNET = b"\x02\0\0\0\0\2\x02\0\0\0\0\1\x08\0"
IP_BYTES, UDP_BYTES = 28 + BEHIND_HEADERS.size, 8 + BEHIND_HEADERS.size
IP = struct.Struct("!BBHHHBBHI4s")
DESTINATION = bytes([203, 0, 113, 1])
UDP = struct.pack("!HHHH", 4660, 4661, UDP_BYTES, 0)
WITHOUT_SOURCE = sum(struct.unpack("!10H", IP.pack(0x45, 0, IP_BYTES, 0, 0x4000, 64, 17, 0, 0, DESTINATION)))


def frame_from(source, sweep=0, place=0):
    total = WITHOUT_SOURCE + (source >> 16) + (source & 0xFFFF)
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    return b"".join((ETHERNET, IP.pack(0x45, 0, IP_BYTES, 0, 0x4000, 64, 17, checksum, source, DESTINATION), UDP,
                     BEHIND_HEADERS.pack(MAGIC, sweep & 0xFFFFFFFF, place))).ljust(60, b"\0")


def text_of(number):
    return f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def make_veths(*pairs):
    """In a network of this process's own: (end, other end), each with one queue, so that the order is kept."""
    own_network()
    one = ("numrxqueues", "1", "numtxqueues", "1")
    for end, other in pairs:
        for command in (("link", "add", end, *one, "type", "veth", "peer", "name", other, *one), ("link", "set", end, "up"),
                        ("link", "set", other, "up")):
            subprocess.run(("ip", *command), check=True)


def own_bpf_folder(session):
    """A BPF file system for this process and what it starts, as long as the session."""
    own_mounts()
    folder = session.path("bpf")
    os.makedirs(folder)
    mount_bpf(folder)
    session.at_exit(lambda: subprocess.run(("umount", "--lazy", folder), check=False))
    return folder


def packet_socket(interface):
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    one.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
    one.bind((interface, 3))  # ETH_P_ALL
    one.setblocking(False)
    return one


class Probes:
    """out: the interface that they are sent by; back: where what passes is seen; dropped: where what is dropped is, if anywhere."""

    def __init__(self, out, back, dropped=None):
        self.out = packet_socket(out)
        self.back = self.out if back == out else packet_socket(back)
        self.seen = {self.back: False, **({packet_socket(dropped): True} if dropped else {})}  # whether what comes there is dropped
        self.is_seen_dropped = dropped is not None
        self.sweep = 0
        self.given_up = set()   # sweeps that did not come to their end
        self.sent = self.passed = self.dropped = 0   # of sweeps that did, guards included
        self.late = 0           # frames of those that came once more, or though they were taken for dropped
        self.missing = 0        # frames of the others that did not come

    def close(self):
        for one in {self.out, *self.seen}:
            one.close()

    def fates(self, sources, seconds=LOST_SECONDS, is_over=lambda: False):
        """[whether it is dropped] of the sources, in the order in which they are sent; None: not all came to an end in time, or before
        is_over() was true."""
        found = []
        for begin in range(0, len(sources), MOST):
            part = self._sweep(sources[begin:begin + MOST], seconds, is_over)
            if part is None:
                return None
            found += part
        return found

    def _sweep(self, sources, seconds, is_over):
        self.sweep += 1
        frames = [frame_from(source, self.sweep, place) for place, source in enumerate((GUARD, *sources, GUARD))]
        fates = [None] * len(frames)
        missing = len(frames)
        for frame in frames:
            until("room for a frame", lambda one=frame: self._is_sent(one), turn=0.001)
        patience = Patience(seconds)
        while missing and (self.is_seen_dropped or fates[-1] is None):
            if patience.is_over() or is_over():
                return self._give_up(missing)
            for sweep, place, is_dropped in self._receive(0.01):
                if sweep != self.sweep:
                    self.late += sweep not in self.given_up
                elif fates[place] is None:
                    fates[place] = is_dropped
                    missing -= 1
                else:
                    self.late += 1
        if fates[0] is None:  # an enforcer that was not there yet when it began
            return self._give_up(missing)
        fates = [fate is not False for fate in fates]
        self.sent += len(fates)
        self.dropped += sum(fates)
        self.passed += len(fates) - sum(fates)
        return fates[1:-1]

    def _give_up(self, missing):
        self.given_up.add(self.sweep)
        self.missing += missing

    def _is_sent(self, frame):
        """False: the queue is full."""
        try:
            self.out.send(frame)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOBUFS):
                raise
            return False
        return True

    def _receive(self, seconds):
        """[(sweep, place, is_dropped)] that are there, after waiting for some."""
        found = []
        for one in select.select([*self.seen], [], [], seconds)[0]:
            while True:
                try:
                    data, address = one.recvfrom(2048)
                except BlockingIOError:
                    break
                if address[2] != socket.PACKET_OUTGOING and data[42:50] == MAGIC:
                    found.append((*BEHIND_HEADERS.unpack_from(data, 42)[1:], self.seen[one]))
        return found
