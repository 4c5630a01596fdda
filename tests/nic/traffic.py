"""Numbered frames into one side, and what comes out of the other one.

Few are under way at a time, so a slow machine is slow and loses nothing. Nothing here waits for a fixed time.
"""

import select
import socket
import struct
import time
from dataclasses import dataclass

from flows import FLOWS, HELLO, MAGIC, MARK, SIZES
from machine import Failed
from until import Patience

RATE = 2000               # frames a second and side, at most
WINDOW = 48               # frames of a side under way that are sure to come out; a ring holds 256 and more
STALL_SECONDS = 240       # without any arrival
LINK_SECONDS = 480
HELLO_SECONDS = 0.3       # before the next one
RECEIVE_BYTES = 16 << 20  # socket buffer

ETH_P_ALL = 3             # linux/if_ether.h
SOL_PACKET = 263          # linux/if_packet.h, as all below
PACKET_AUXDATA, PACKET_FANOUT, PACKET_IGNORE_OUTGOING = 8, 18, 23
FANOUT_QM = 5             # by the queue that a frame came by
AUXDATA = struct.Struct("IIIHHHH")
VLAN_VALID, VLAN_TYPE_VALID = 0x10, 0x40
SO_RCVBUFFORCE = 33       # asm-generic/socket.h


class Tap:
    """The host's end of a port: a socket for each queue by which frames may leave the guest."""

    def __init__(self, name, queues, group):
        self.sockets = []
        for _ in range(queues):
            end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            end.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BYTES)
            end.bind((name, ETH_P_ALL))
            end.setblocking(False)
            if queues > 1:
                end.setsockopt(SOL_PACKET, PACKET_FANOUT, group | FANOUT_QM << 16)
            self.sockets.append(end)

    def send(self, frame):
        self.sockets[0].send(frame)

    def take(self):
        """(queue, frame) of all that is there."""
        for queue, end in enumerate(self.sockets):
            while True:
                try:
                    frame, extra, _, _ = end.recvmsg(2048, 256)
                except BlockingIOError:
                    break
                yield queue, restore_tag(frame, extra)

    def close(self):
        for end in self.sockets:
            end.close()


def restore_tag(frame, extra):
    """The kernel takes the outer VLAN tag out of what it receives."""
    for level, kind, data in extra:
        if level == SOL_PACKET and kind == PACKET_AUXDATA:
            status, _, _, _, _, tag, tag_type = AUXDATA.unpack(data[:AUXDATA.size])
            if status & VLAN_VALID:
                tag_type = tag_type if status & VLAN_TYPE_VALID else 0x8100
                return frame[:12] + struct.pack(">HH", tag_type, tag) + frame[12:]
    return frame


@dataclass
class Sent:
    flow: object
    side: int
    frame: bytes
    era: tuple          # (policy acknowledged, policy asked for) when it was sent
    queue: int = -1     # by which it came out; -1: it did not
    copies: int = 0


class Traffic:
    def __init__(self, taps):
        self.taps = taps
        self.sent = []             # index = number of the frame
        self.under_way = [0, 0]    # of each side, that are sure to come out
        self.problems = []
        self.next_flow = [0, 0]
        self.due = [0.0, 0.0]      # frames that may be sent now
        self.clock = time.monotonic()
        self.patience = Patience(STALL_SECONDS)  # since the last arrival

    def _send(self, side, flow, era):
        number = len(self.sent)
        frame = flow.frame(side, number, SIZES[number // 7 % len(SIZES)])
        self.sent.append(Sent(flow, side, frame, era))
        if flow.always_passes():
            self.under_way[side] += 1
        self.taps[side].send(frame)

    def _take(self):
        for side, tap in enumerate(self.taps):
            for queue, frame in tap.take():
                self.patience = Patience(STALL_SECONDS)
                magic, number = MARK.unpack(frame[-MARK.size:])
                if magic != MAGIC or number >= len(self.sent):
                    self.problems.append(f"side {side} gave a frame that nobody sent, of {len(frame)} bytes: "
                                         f"{frame[:64].hex()}")
                    continue
                sent = self.sent[number]
                sent.copies += 1
                if sent.copies > 1:
                    self.problems.append(f"frame {number} ({sent.flow}) came {sent.copies} times")
                    continue
                sent.queue = queue
                if side == sent.side:
                    self.problems.append(f"frame {number} ({sent.flow}) came back by side {side}")
                if frame != sent.frame:
                    self.problems.append(f"frame {number} ({sent.flow}) was changed: {sent.frame.hex()} became "
                                         f"{frame.hex()}")
                if sent.flow.always_passes():
                    self.under_way[sent.side] -= 1

    def _wait(self, seconds):
        sockets = [end for tap in self.taps for end in tap.sockets]
        select.select(sockets, [], [], seconds)

    def _check_stall(self):
        if self.patience.is_over():
            raise Failed(f"nothing came out for {STALL_SECONDS} s; under way {self.under_way}, "
                         f"{len(self.sent)} frames sent; {self.lost()}")

    def step(self, era, flows=FLOWS):
        """Sends what may be sent now, takes what came out."""
        now = time.monotonic()
        for side in range(2):
            self.due[side] = min(self.due[side] + (now - self.clock) * RATE, 16)
            while self.due[side] >= 1 and self.under_way[side] < WINDOW:
                self._send(side, flows[self.next_flow[side] % len(flows)], era)
                self.next_flow[side] += 1
                self.due[side] -= 1
        self.clock = now
        self._take()
        self._check_stall()
        self._wait(0.002)

    def settle(self, era):
        """Until all that comes out has come out: behind the frames that may be dropped go some, by every queue, that
        are not, and no queue changes its order."""
        for side in range(2):
            for flow in FLOWS:
                if flow.always_passes():
                    self._send(side, flow, era)
        self.patience = Patience(STALL_SECONDS)
        while any(self.under_way):
            self._take()
            self._check_stall()
            self._wait(0.05)

    def find_link(self):
        """Sends one frame after the other into each side until one comes out; how many that took."""
        tries = 0
        patience = Patience(LINK_SECONDS)
        for side in range(2):
            arrived = False
            while not arrived:
                if patience.is_over():
                    raise Failed(f"no link in {LINK_SECONDS} s: {tries} frames sent, none came out of side {1 - side}")
                tries += 1
                number = len(self.sent)
                self._send(side, HELLO, (0, 0))
                this = Patience(HELLO_SECONDS)
                while not arrived and not this.is_over():
                    self._wait(0.02)
                    self._take()
                    arrived = self.sent[number].copies > 0
        self.under_way = [0, 0]  # what was sent before there was a link is lost, or came before the last one
        self.patience = Patience(STALL_SECONDS)
        return tries

    def lost(self, first=0):
        """Text about the frames since `first` that had to come out and did not; empty when there is none."""
        return describe("lost", [(number, sent) for number, sent in enumerate(self.sent[first:], first)
                                 if sent.flow.always_passes() and sent.copies == 0])


def describe(what, frames, limit=5):
    if not frames:
        return ""
    named = ", ".join(f"{number} ({sent.flow}, side {sent.side}, {len(sent.frame)} bytes)"
                      for number, sent in frames[:limit])
    return f"{len(frames)} frames {what}: {named}" + (", ..." if len(frames) > limit else "")
