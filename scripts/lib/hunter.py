"""Runs tests again and again beside load, until one fails. A test that fails by chance shows a race, of the test or of the product.
`scripts/test --repeat N --load` calls it.

    hunter.py BUILD [--suite SUITE] [--test NAME] [--repeat N] [--load] [--seed S]

With --load each run has one or more of: programs of the test that stop for a moment, busy processors, one processor for all, a
disk that others write to. The seed decides which, when and for how long. Exit code: 0 when all passed; 1; 2.
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

import evidence

SKIPPED = 77
LONGEST_STOP_S = 0.3
SLOWER = 4  # times as long may a test take


def tests_of(build, suite, name):
    """Meson's tests of this suite and name; either may be none."""
    told = subprocess.run(["meson", "introspect", "--tests", build], capture_output=True, text=True, check=True)
    found = []
    for test in json.loads(told.stdout):
        of_suite = test["suite"][0].split(":")[-1]
        if suite in (None, of_suite) and name in (None, test["name"]):
            found.append({**test, "of_suite": of_suite})
    if not found:
        raise SystemExit(f"hunter: no test is called {name or suite}: scripts/test --list names them")
    return found


class Stopper:
    """Stops processes for a moment: by a frozen cgroup, so that a test may stop and continue its programs itself; else by signals."""

    def __init__(self):
        self.folder = None
        with open("/proc/mounts", encoding="utf-8") as mounts:
            places = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
        if places:
            with contextlib.suppress(OSError):
                self.folder = tempfile.mkdtemp(prefix="weir-hunter-", dir=places[0])
                self.write(self.folder, "cgroup.freeze", 1)
        self.root = places[0] if places else None

    @staticmethod
    def write(folder, name, value):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def stop(self, pid, seconds):
        if self.folder is None:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
            return os.kill(pid, signal.SIGCONT)
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            home = self.root + next(line.rstrip("\n")[3:] for line in file if line.startswith("0::"))
        self.write(self.folder, "cgroup.procs", pid)
        time.sleep(seconds)
        return self.write(home, "cgroup.procs", pid)

    def close(self):
        if self.folder is not None:
            with contextlib.suppress(OSError):  # one that ended there is not gone yet
                os.rmdir(self.folder)


class Load:
    """What goes on beside a run. Ends with it."""

    KINDS = ("stops", "busy", "one processor", "disk")

    def __init__(self, seed, stops_test):
        """stops_test: its own process, too; not of a script, whose patience is counted by the clock."""
        self.stops_test = stops_test
        self.random = random.Random(seed)
        self.kinds = [kind for kind in self.KINDS if self.random.random() < 0.5] or ["stops"]
        self.is_over = threading.Event()
        self.helpers, self.threads, self.stops = [], [], 0

    def told(self):
        return ", ".join(self.kinds)

    def begin(self, pid):
        if "one processor" in self.kinds:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(pid, {self.random.choice(sorted(os.sched_getaffinity(0)))})
        if "busy" in self.kinds:
            for _ in range(os.cpu_count()):
                self.helpers.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        for kind, work in (("stops", self.stop_programs), ("disk", self.write)):
            if kind in self.kinds:
                self.threads.append(threading.Thread(target=work, args=(pid,), daemon=True))
                self.threads[-1].start()

    def stop_programs(self, pid):
        stopper = Stopper()
        while not self.is_over.wait(self.random.uniform(0.01, 0.5)):
            programs = sorted(evidence.programs_of([pid])[0 if self.stops_test else 1:])
            if not programs:
                continue
            with contextlib.suppress(OSError):  # it ends
                stopper.stop(self.random.choice(programs), self.random.uniform(0.001, LONGEST_STOP_S))
                self.stops += 1
        stopper.close()

    def write(self, _pid):
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
            outcome = {0: "passed", SKIPPED: "skipped", None: "took too long"}.get(code, f"failed with {code}")
            beside = f" beside {load.told()}, {load.stops} stops" if load else ""
            print(f"hunter: round {number + 1}: {test['of_suite']} / {test['name']} {outcome} in {seconds:.1f} s{beside}", flush=True)
            if code not in (0, SKIPPED):
                print(told)
                print(f"hunter: failed in round {number + 1}; again: scripts/test --suite {test['of_suite']} --test {test['name']} "
                      f"--repeat {repeat}{' --load' if has_load else ''} --seed {seed}", flush=True)
                return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--suite")
    parser.add_argument("--test", metavar="NAME")
    parser.add_argument("--repeat", type=int, default=20, metavar="N")
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    asked = parser.parse_args()
    tests = tests_of(asked.build, asked.suite, asked.test)
    print(f"hunter: {asked.repeat} rounds, seed {asked.seed}", flush=True)
    return 0 if hunt(tests, asked.build, asked.repeat, asked.load, asked.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
