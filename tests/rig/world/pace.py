"""The pace of traffic, of orders and of faults: the one place where a test in Python sleeps and waits for nothing.

Allowed: the gap between two frames, looks or orders; a random moment; the length of a stop, or of a stretch that is measured.
Not allowed: to wait for something (until.py), or to show that something does not happen (a marker that comes after it).
"""
import time


def hold(seconds):
    """Sleeps for a gap, a random moment or a stretch. The test is as right if it takes longer."""
    time.sleep(seconds)


class Pace:
    """One turn every `seconds`, the first at once. A late turn moves all that follow."""

    def __init__(self, seconds):
        self.seconds, self.due = seconds, time.monotonic()

    def turn(self):
        time.sleep(max(0, self.due - time.monotonic()))
        self.due = max(self.due + self.seconds, time.monotonic())
