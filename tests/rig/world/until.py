"""The one wait of the tests in Python: until(what, holds).

The wait counts its own turns. A turn counts for as long as it took, but for no more than MOST_OVER past its pause: a machine
that stands still for a while moves the end.
"""
import threading
import time

TURN_SECONDS = 0.02
MOST_OVER = 0.5


class WaitedInVain(Exception):
    pass


class Patience:
    """Counts the turns of a loop that waits by itself, by select() for one. left: seconds. turn: how long one waits at most."""

    def __init__(self, seconds, turn=TURN_SECONDS):
        self.left, self.most, self.last = seconds, turn + MOST_OVER, time.monotonic()

    def is_over(self):
        """Asked once in each turn."""
        now = time.monotonic()
        self.left -= min(now - self.last, self.most)
        self.last = now
        return self.left <= 0


def until(what, holds, seconds=60, error=WaitedInVain, ended=None, about=lambda: "", turn=TURN_SECONDS):
    """The first true value of holds(). error: raised when patience is over, with what about() says; None: nothing is raised, and
    the last value is returned. ended(): asked in each turn why it cannot come any more; raises error when it says something."""
    patience, is_over = Patience(seconds, turn), False
    while True:
        value = holds()
        if value:
            return value
        reason = ended() if ended else None
        if reason:
            raise error(f"{reason} while waiting for {what}")
        if is_over:
            if error is None:
                return value
            raise error(f"waited {seconds} s in vain for {what}{about()}")
        time.sleep(turn)
        is_over = patience.is_over()


class Turns:
    """Counts turns while something else goes on: `seconds` is how long that took, but for when the machine stood still."""

    def __init__(self):
        self.seconds, self.is_over = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        begin = time.monotonic()
        while not self.is_over.wait(TURN_SECONDS):
            begin, last = time.monotonic(), begin
            self.seconds += min(begin - last, 5 * TURN_SECONDS)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
