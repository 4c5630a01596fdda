"""When did the machine stand still? A host may take processors away for a tenth of a second, and does not always say so (`steal`).

On each processor a process of the highest real-time priority sleeps for a millisecond, again and again. When it comes back late, that
processor ran nothing: no program of whatever priority, nor what is measured there. Needs root; without, no standstill is known.
Standard library only.
"""

import os
import signal
import struct
import time

from pace import hold

TURN_SECONDS = 0.001
LATE_SECONDS = 0.004
PAUSE = struct.Struct("<dd")  # begin and end, of time.monotonic()


def watch(cpu, told):
    """In a process of its own, until it is killed, or its parent has ended."""
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO)))
    parent, before = os.getppid(), time.monotonic()
    while os.getppid() == parent:
        hold(TURN_SECONDS)
        now = time.monotonic()
        if now - before > TURN_SECONDS + LATE_SECONDS:
            os.write(told, PAUSE.pack(before + TURN_SECONDS, now))
        before = now


class Standstills:
    """with Standstills() as still: ...; still.ms(begin, end)"""

    def __init__(self):
        self.pauses, self.watchers = [], []

    def __enter__(self):
        self.read_end, told = os.pipe()
        os.set_blocking(self.read_end, False)
        for cpu in os.sched_getaffinity(0):
            pid = os.fork()
            if pid == 0:
                try:
                    watch(cpu, told)
                except OSError:
                    pass  # no right to real time: nothing is known
                finally:
                    os._exit(0)
            self.watchers.append(pid)
        os.close(told)
        return self

    def __exit__(self, *_):
        for pid in self.watchers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(self.read_end)

    def ms(self, begin, end):
        """For how long at least one processor stood still then; times are those of time.monotonic()."""
        try:
            while told := os.read(self.read_end, 64 * PAUSE.size):
                self.pauses += PAUSE.iter_unpack(told)
        except BlockingIOError:
            pass  # that was all
        total, until = 0.0, begin
        for pause_begin, pause_end in sorted(self.pauses):
            total += max(0.0, min(pause_end, end) - max(pause_begin, until))
            until = max(until, pause_end)
        return total * 1000
