"""Pairs of frames into one port of the data plane, one that a list names and one that none does, and which of them come out of
the other port. A thread of its own, so that it goes on while the guest is asked for something else."""

import os
import struct
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "nic"), os.path.join(HERE, "..", "rig")]
import rooms  # noqa: E402,F401
from frames import UDP, V4, Data, Ethernet, WithPorts, assemble, number_of  # noqa: E402
from pace import hold  # noqa: E402
from traffic import Tap  # noqa: E402

LISTED, INNOCENT, SERVER = "203.0.113.7", "198.51.100.7", "192.0.2.80"
MARK = struct.Struct(">4sI")
MAGIC = b"rack"
EVERY_SECONDS, LOOKS = 0.05, 10  # between two pairs, and so many looks


def frame(source, number):
    return assemble([Ethernet(), V4(number_of(source), number_of(SERVER)), WithPorts(UDP, 40000, 53),
                     Data(MARK.pack(MAGIC, number) + bytes(16), number=UDP)])


class Pairs(threading.Thread):
    """sent[i] is when pair i was sent; out[i] says which of its frames came out."""

    def __init__(self, first, second):
        super().__init__(daemon=True)
        self.taps = (Tap(first, 1, 0), Tap(second, 1, 1))
        self.sent, self.out = [], []
        self.ended = False

    def run(self):
        while not self.ended:
            number = len(self.sent)
            self.out.append(set())
            self.sent.append(time.monotonic())
            for source in (LISTED, INNOCENT):  # no port changes the order of one queue
                try:
                    self.taps[0].send(frame(source, number))
                except OSError:  # the guest is being started again
                    pass
            for _ in range(LOOKS):
                self._take()
                hold(EVERY_SECONDS / LOOKS)

    def _take(self):
        for _, seen in self.taps[1].take():
            magic, number = MARK.unpack(seen[42:50]) if len(seen) >= 50 else (b"", 0)
            if magic == MAGIC and number < len(self.out):
                self.out[number].add(LISTED if seen[26:30] == number_of(LISTED).to_bytes(4, "big") else INNOCENT)

    def stop(self):
        self.ended = True
        self.join()
        for tap in self.taps:
            tap.close()

    def now(self):
        """The number of the next pair: what is asked about `since` begins with it."""
        return len(self.sent)

    def leaked(self, since, until=None):
        """Pairs whose listed frame came out."""
        return [number for number in range(since, until or len(self.out)) if LISTED in self.out[number]]

    def passed(self, since, until=None):
        return [number for number in range(since, until or len(self.out)) if INNOCENT in self.out[number]]

    def first_block(self, since):
        """When the first pair was sent of which only the innocent frame came out; None: there is none yet."""
        for number in self.passed(since):
            if LISTED not in self.out[number]:
                return self.sent[number]
        return None
