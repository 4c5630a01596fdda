"""The one wait of the tests in Python: until(what, holds).

Patience counts the turns of whoever waits. A turn counts for as long as it took, and for MOST_OF_TURN at most: a machine
that stands still for a while moves the end.
"""
import time

TURN_SECONDS = 0.02
MOST_OF_TURN = 0.5


class WaitedInVain(Exception):
    pass


def until(what, holds, seconds=60, error=WaitedInVain, ended=None, about=lambda: "", turn=TURN_SECONDS):
    """The first true value of holds(). error: raised when patience is over, with what about() says. ended(): asked in each
    turn why it cannot come any more; raises error when it says something."""
    spent = 0.0
    while True:
        begin = time.monotonic()
        value = holds()
        if value:
            return value
        reason = ended() if ended else None
        if reason:
            raise error(f"{reason} while waiting for {what}")
        if spent >= seconds:
            raise error(f"waited {seconds} s in vain for {what}{about()}")
        time.sleep(turn)
        spent += min(time.monotonic() - begin, MOST_OF_TURN)
