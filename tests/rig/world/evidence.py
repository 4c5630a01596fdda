"""Evidence of a failed test: its folders with their logs, a timeline of its steps, the stacks of its programs.

A test calls begin() once. Then add() appends to the timeline, and a session that a failure ends is kept. A test that passes writes
nothing. tests/smoke/conftest.py calls it. Standard library only; the stacks need eu-stack (elfutils).
"""

import contextlib
import os
import shutil
import stat
import subprocess
import time
import unittest

MOST_LINES, MOST_LINE = 5000, 400  # of the timeline
MOST_FILE = 16 << 20               # bytes of a file that is kept
STACK_S = 20                       # of one program
SHOWN = 15                         # lines of the timeline that are printed

place = None  # of this test; none: nothing is kept


class _Test:
    """The test that this process is."""

    def __init__(self):
        self.begin = time.monotonic()
        self.lines, self.left_out = [], 0
        self.last, self.times = "", 0  # what was added last, and how often


test = _Test()


def begin(name, folder):
    """name: of the test. folder: where its folder will be."""
    global place, test
    test = _Test()
    place = os.path.join(folder, name)
    shutil.rmtree(place, ignore_errors=True)
    add("the test begins")


def add(what, took=""):
    """A line of the timeline: what the test does, or sees. The same again takes the place of the line before."""
    if place is None:
        return
    test.times = test.times + 1 if what == test.last else 1
    if test.times > 1:
        test.lines.pop()
        took += f" ({test.times} times)"
    test.last = what
    if len(test.lines) == MOST_LINES:
        del test.lines[:MOST_LINES // 2]
        test.left_out += MOST_LINES // 2
    now = time.time()
    at = time.strftime("%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}"
    test.lines.append(f"{at} {time.monotonic() - test.begin:9.3f} {what[:MOST_LINE]}{took}")


def is_failure(kind):
    """Whether an exception of this kind, which leaves a `with`, is a failure. Skipped (pytest's) and SkipTest are none."""
    return kind is not None and kind.__name__ != "Skipped" and not issubclass(kind, (unittest.SkipTest, GeneratorExit))


def programs_of(pids):
    """These processes, and those that they started."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
            children.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
    found = list(pids)
    for pid in found:
        found += children.get(pid, [])
    return found


def stacks_of(pid):
    """The text: its command, its state, and the stacks of its threads."""
    text = []
    for name in ("cmdline", "status"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
            lines = file.read().replace("\0", " ").splitlines()
            text += lines if name == "cmdline" else [line for line in lines if line.split(":")[0] in ("State", "SigQ", "Threads", "Seccomp")]
    if shutil.which("eu-stack") is None:
        return "\n".join([*text, "no stacks: eu-stack is not there (Debian: elfutils)"])
    try:
        done = subprocess.run(["eu-stack", "-p", str(pid)], capture_output=True, text=True, timeout=STACK_S)
        text += [done.stdout, done.stderr]
    except subprocess.TimeoutExpired:
        text.append(f"no stacks within {STACK_S} s")
    return "\n".join(text)


def keep_folder(folder):
    """Copies its files, but for sockets and long ones."""
    if place is None:
        return
    to = os.path.join(place, os.path.basename(folder))
    for here, _, names in os.walk(folder):
        there = os.path.join(to, os.path.relpath(here, folder))
        os.makedirs(there, exist_ok=True)
        for name in names:
            path = os.path.join(here, name)
            with contextlib.suppress(OSError):
                about = os.lstat(path)
                if stat.S_ISREG(about.st_mode) and about.st_size <= MOST_FILE:
                    shutil.copy2(path, os.path.join(there, name))


def keep(folder, pids):
    """Keeps a session that a failure ends. Its programs still run."""
    if place is None:
        return
    to = os.path.join(place, os.path.basename(folder))
    os.makedirs(to, exist_ok=True)
    with open(os.path.join(to, "stacks.txt"), "w", encoding="utf-8") as file:
        for pid in programs_of(pids):
            file.write(f"=== process {pid}: {stacks_of(pid)}\n")
    keep_folder(folder)


def write_timeline():
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, "timeline.txt"), "w", encoding="utf-8") as file:
        if test.left_out:
            file.write(f"{test.left_out} lines before are left out\n")
        file.writelines(line + "\n" for line in test.lines)


def told():
    """The end of the timeline, as text."""
    return "\n".join(["the last that it did:", *test.lines[-SHOWN:]])
