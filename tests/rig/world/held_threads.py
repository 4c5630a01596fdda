"""Threads of other processes that do not run while they are held, by ptrace. Standard library only."""

import contextlib
import ctypes
import errno
import os

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000  # ptrace(2)


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
