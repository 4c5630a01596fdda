"""Runs tests again and again beside load, until one fails. A test that fails by chance shows a race, of the test or of the product.
`scripts/test --repeat N --load` calls it.

    hunter.py BUILD [--suite SUITE] [--test NAME] [--changed COMMIT] [--repeat N] [--load] [--seed S]

With --load each run has one or more of: programs of the test that stop for a moment, busy processors, one processor for all, a
quota of processor time, a disk that others write to. The seed decides which, when and for how long. Exit code: 0 when all passed; 1; 2.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
import evidence
import smoke_tests
from changed_tests import of_changed
from until import WaitedInVain, until

SKIPPED = 77
LONGEST_STOP_S = 0.3
SLOWER = 4  # times as long may a test take
FILE_S = 600  # all tests of a file; each has a limit of its own besides


def tests_of(build, suite, name):
    """The tests of Meson and of pytest with this suite and name; either may be none."""
    told = subprocess.run(["meson", "introspect", "--tests", build], capture_output=True, text=True, check=True)
    found = []
    for test in json.loads(told.stdout):
        of_suite = test["suite"][0].split(":")[-1]
        if suite in (None, of_suite) and name in (None, test["name"]):
            found.append({**test, "of_suite": of_suite})
    if suite in (None, *smoke_tests.MARKS):
        marks = ["-m", smoke_tests.MARKS[suite]] if suite else []
        wanted = smoke_tests.names_of(suite) if name is None else [name] if smoke_tests.node_of(name) else []
        found += [{"name": one, "of_suite": "smoke", "timeout": FILE_S, "workdir": smoke_tests.ROOT, "env": {"WEIR_BUILD": os.path.abspath(build)},
                   "cmd": [smoke_tests.PYTEST, smoke_tests.node_of(one), "--slower", str(SLOWER), *marks]} for one in wanted]
    if not found:
        raise SystemExit(f"hunter: no test is called {name or suite}: scripts/test --list names them")
    return found


def cgroups(kind, controller=""):
    """Where cgroups of this version ("cgroup" or "cgroup2") with this controller are mounted; None: nowhere."""
    with open("/proc/mounts", encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    return next((mount[1] for mount in mounts if mount[2] == kind and (not controller or controller in mount[3].split(","))), None)


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(str(value))


def make_cgroup(root, name, value):
    """A cgroup with this setting; None: it cannot be had here."""
    if root is None:
        return None
    with contextlib.suppress(OSError):
        folder = tempfile.mkdtemp(prefix="weir-hunter-", dir=root)
        try:
            write(folder, name, value)
            return folder
        except OSError:
            os.rmdir(folder)
    return None


def command_of(pid):
    """pytest and the process that it forks for a test have the same. Empty: it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""


def remove_cgroup(folder):
    def is_removed():
        with contextlib.suppress(OSError):  # what the test started and left may not have ended yet
            os.rmdir(folder)
            return True

    if folder:
        with contextlib.suppress(WaitedInVain):
            until("a cgroup to be empty", is_removed, 5)


class Stopper:
    """Stops processes for a moment: by a frozen cgroup, so that a test may stop and continue its programs itself; else by signals."""

    def __init__(self):
        self.root = cgroups("cgroup2")
        self.folder = make_cgroup(self.root, "cgroup.freeze", 1)

    def stop(self, pid, seconds):
        if self.folder is None:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
            return os.kill(pid, signal.SIGCONT)
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            home = self.root + next(line.rstrip("\n")[3:] for line in file if line.startswith("0::"))
        write(self.folder, "cgroup.procs", pid)
        time.sleep(seconds)
        return write(home, "cgroup.procs", pid)

    def close(self):
        remove_cgroup(self.folder)


class Load:
    """What goes on beside a run. Ends with it."""

    KINDS = ("stops", "busy", "one processor", "quota", "disk")
    QUOTA_US, PERIOD_US = 30_000, 100_000

    def __init__(self, seed, stops_test, kinds=None):
        """kinds: without, the seed draws them. stops_test: its own process, too; not of pytest, whose patience is counted by the clock."""
        self.stops_test = stops_test
        self.random = random.Random(seed)
        self.kinds = list(kinds or [kind for kind in self.KINDS if self.random.random() < 0.5] or ["stops"])
        self.is_over = threading.Event()
        self.helpers, self.threads, self.stops, self.limited = [], [], 0, None

    def told(self):
        return ", ".join(self.kinds)

    def begin(self, pid):
        if "one processor" in self.kinds:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(pid, {self.random.choice(sorted(os.sched_getaffinity(0)))})
        if "busy" in self.kinds:
            for _ in range(os.cpu_count()):
                self.helpers.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        if "quota" in self.kinds:
            self.limited = self.limit()
            if self.limited:
                write(self.limited, "cgroup.procs", pid)
            else:
                self.kinds[self.kinds.index("quota")] = "no quota here"
        for kind, work in (("stops", self.stop_programs), ("disk", self.fill_disk)):
            if kind in self.kinds:
                self.threads.append(threading.Thread(target=work, args=(pid,), daemon=True))
                self.threads[-1].start()

    def limit(self):
        """A cgroup with little processor time, of either version; None: there is none here."""
        first = cgroups("cgroup", "cpu")
        if first:
            return make_cgroup(first, "cpu.cfs_quota_us", self.QUOTA_US)  # of 100 ms
        second = cgroups("cgroup2")
        with contextlib.suppress(OSError, TypeError):
            write(second, "cgroup.subtree_control", "+cpu")
        return make_cgroup(second, "cpu.max", f"{self.QUOTA_US} {self.PERIOD_US}")

    def stop_programs(self, pid):
        stopper = Stopper()
        while not self.is_over.wait(self.random.uniform(0.01, 0.5)):
            own = command_of(pid)
            programs = sorted(each for each in evidence.programs_of([pid]) if self.stops_test or command_of(each) != own)
            if not programs:
                continue
            with contextlib.suppress(OSError):  # it ends
                stopper.stop(self.random.choice(programs), self.random.uniform(0.001, LONGEST_STOP_S))
                self.stops += 1
        stopper.close()

    def fill_disk(self, _pid):
        with tempfile.TemporaryFile() as file:
            while not self.is_over.is_set():
                file.seek(0)
                file.write(os.urandom(self.random.randrange(1, 32) << 16))
                file.flush()
                os.fsync(file.fileno())

    def end(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        for helper in self.helpers:
            helper.kill()
            helper.wait()
        remove_cgroup(self.limited)


def run(test, build, load):
    """(exit code or None for one whose time is over, what it printed, seconds)"""
    seconds = test["timeout"] * SLOWER
    environment = {**os.environ, **test["env"], "WEIR_EVIDENCE": os.path.join(os.path.abspath(build), "evidence"),
                   "WEIR_TEST_SECONDS": str(seconds)}
    begin = time.monotonic()
    with tempfile.TemporaryFile(mode="w+", errors="replace") as output:
        process = subprocess.Popen(test["cmd"], stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=test["workdir"] or build,
                                   env=environment, start_new_session=True)
        if load:
            load.begin(process.pid)
        try:
            code = process.wait(seconds + evidence.STACK_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        finally:
            if load:
                load.end()
        output.seek(0)
        return code, output.read(), time.monotonic() - begin


def hunt(tests, build, repeat, has_load, seed):
    """Whether all passed, so many times each."""
    for number in range(repeat):
        for test in tests:
            load = Load(f"{seed} {number} {test['of_suite']} {test['name']}", test["of_suite"] == "unit") if has_load else None
            code, told, seconds = run(test, build, load)
            if code == 0 and test["cmd"][0] == smoke_tests.PYTEST and " passed" not in told:
                code = SKIPPED
            outcome = {0: "passed", SKIPPED: "skipped", None: "took too long"}.get(code, f"failed with {code}")
            beside = f" beside {load.told()}, {load.stops} stops" if load else ""
            print(f"hunter: round {number + 1}: {test['of_suite']} / {test['name']} {outcome} in {seconds:.1f} s{beside}", flush=True)
            if code not in (0, SKIPPED):
                print(told)
                print(f"hunter: failed in round {number + 1}; again: scripts/test --test {test['name']} "
                      f"--repeat {repeat}{' --load' if has_load else ''} --seed {seed}", flush=True)
                return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--suite")
    parser.add_argument("--test", metavar="NAME")
    parser.add_argument("--changed", metavar="COMMIT")
    parser.add_argument("--names", action="store_true", help="of what has changed, and no more")
    parser.add_argument("--repeat", type=int, default=20, metavar="N")
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    asked = parser.parse_args()
    tests = tests_of(asked.build, asked.suite, asked.test)
    if asked.changed:
        tests = of_changed(asked.build, tests, asked.changed)
        if asked.names:
            return print(*(test["name"] for test in tests))
        print(f"hunter: changed since {asked.changed}: {', '.join(test['name'] for test in tests) or 'no test'}", flush=True)
    print(f"hunter: {asked.repeat} rounds, seed {asked.seed}", flush=True)
    return 0 if hunt(tests, asked.build, asked.repeat, asked.load, asked.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
