#!/usr/bin/env python3
"""Time comes from one place, and tests wait in one place.

The product asks the system for the time in common/clock.cpp alone, and waits for it by common/wait_for.h: a test can then
hold and move its clocks (tests/unit/own_clocks.h). A test in C++ sleeps in tests/unit/eventually.h alone, a test in Python in
tests/rig/world/until.py, and in tests/rig/world/pace.py where it makes a pace. Neither asserts anything on how long something
took: a machine that stands still would fail it.
    clocks.py [--json]    exit 1: some line does otherwise
"""
import ast
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PRODUCT = ["common", "filter", "bpf", "control", "dataplane"]
CLOCK = re.compile(r"\b(?:steady|system|high_resolution)_clock::now\b|\bclock_gettime\(|\bgettimeofday\(|[^_\w]time\((?:nullptr|NULL|0)\)")
WAIT = re.compile(r"(?:\.|->)wait_(?:for|until)\(")
SLEEP = re.compile(r"\bsleep_(?:for|until)\(|\bu?sleep\(|\bnanosleep\(")
AT_MOST = re.compile(r"\b(?:CHECK|REQUIRE)\w*\([^;]*now\(\) - [^;]*<")
# Where it has its place, and why.
OWN = {
    "common/clock.cpp": "the clock itself",
    "common/wait_for.h": "the wait itself",
    "tests/unit/eventually.h": "the wait itself",
    "tests/inject/fault_slots.h": "a thread of a program is held there",
    "tests/xdp/traffic.cpp": "the pace of its traffic",
    "tests/bench/plane_client.cpp": "the pace of its publications",
}
# The same in Python: what each file may do, and why. Folders end with a slash.
SLEEPS, ASSERTS = "sleeps", "asserts"
OWN_PYTHON = {
    "tests/bench/": ({SLEEPS, ASSERTS}, "benchmarks measure time"),
    "tests/reproduce/": ({SLEEPS, ASSERTS}, "they measure what papers measured"),
    "tests/rig/world/until.py": ({SLEEPS}, "the wait itself"),
    "tests/rig/world/pace.py": ({SLEEPS}, "the pace itself"),
    "tests/rig/world/session.py": ({ASSERTS}, "wait_enforced() gives up a policy that was refused for some seconds"),
    "tests/rig/run/hunter.py": ({SLEEPS}, "it stops programs for a length that it draws"),
    "tests/smoke/test_idle.py": ({ASSERTS}, "the share of a core that a worker uses"),
    "tests/smoke/test_races_found.py": ({SLEEPS}, "it writes races for the hunter to find"),
}
PYTHON_SLEEP = re.compile(r"\btime\.sleep\(|\bfrom time import .*\bsleep\b")
STEADY, WALL = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"), ("time", "time_ns")
CHECKS = re.compile(r"check|expect|assert|must|fail|require|equal")


def code_of(path):
    """Lines without comments and texts, with their numbers."""
    with open(os.path.join(ROOT, path), encoding="utf8") as file:
        for number, line in enumerate(file, 1):
            yield number, re.sub(r'"(?:\\.|[^"\\])*"|//.*', "", line)


def sources(top):
    for folder, _, names in os.walk(os.path.join(ROOT, top)):
        for name in sorted(names):
            if name.endswith((".h", ".cpp")) and not name.endswith(".bpf.h"):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def python_sources(top):
    """Also programs without an ending, by their first line."""
    for folder, _, names in os.walk(os.path.join(ROOT, top)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".py") or ("." not in name and open(path, "rb").readline().startswith(b"#!/usr/bin/env python3")):
                yield os.path.relpath(path, ROOT)


def called(node):
    """The name of a function or method."""
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def is_clock(node, names=(*STEADY, *WALL)):
    return isinstance(node, ast.Call) and called(node) in names and getattr(getattr(node.func, "value", None), "id", "") == "time"


def assigned(function, is_it):
    """Names that get such a value in this function."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(node.targets[0].elts, node.value.elts))
        elif isinstance(node, (ast.Assign, ast.NamedExpr)):
            pairs = [(node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value)]
        else:
            continue
        found |= {name.id for name, value in pairs if isinstance(name, ast.Name) and is_it(value)}
    return found


class Lengths:
    """The expressions of a function that are the time that something took."""

    def __init__(self, function):
        self.moments = assigned(function, is_clock)
        self.names = assigned(function, self.has_difference)

    def is_moment(self, node):
        return is_clock(node) or (isinstance(node, ast.Name) and node.id in self.moments)

    def has_difference(self, node):
        """The difference of two moments, or of anything and a steady clock: a time of day may be compared with the end of an entry."""
        return any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) and (
            is_clock(part.left, STEADY) or is_clock(part.right, STEADY) or (self.is_moment(part.left) and self.is_moment(part.right)))
            for part in ast.walk(node))

    def has(self, node):
        return self.has_difference(node) or any(isinstance(part, ast.Name) and part.id in self.names for part in ast.walk(node))

    def compares(self, test, is_smaller):
        """Whether some length is compared, and is to be the smaller, or the larger, side."""
        less, more = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE)) if is_smaller else ((ast.Gt, ast.GtE), (ast.Lt, ast.LtE))
        return any((isinstance(op, less) and self.has(left)) or (isinstance(op, more) and self.has(right))
                   for part in ast.walk(test) if isinstance(part, ast.Compare)
                   for left, op, right in zip((part.left, *part.comparators), part.ops, part.comparators))


def complains(statements):
    """Whether one of them raises, or calls what fails the test."""
    return any(isinstance(part, ast.Raise) or (isinstance(part, ast.Call) and CHECKS.search(called(part)))
               for one in statements for part in ast.walk(one))


def elapsed_lines(tree):
    """Lines that want something to have taken so long at most: in assertions, in arguments of checks, before what raises."""
    lines = set()
    for function in [tree, *(one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))]:
        lengths = Lengths(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Assert):
                is_wrong = lengths.compares(node.test, True)
            elif isinstance(node, ast.Call) and CHECKS.search(called(node)):
                is_wrong = any(lengths.compares(one, True) for one in node.args)
            else:
                is_wrong = isinstance(node, ast.If) and complains(node.body) and lengths.compares(node.test, False)
            if is_wrong:
                lines.add(node.lineno)
    return lines


def wrong_in_python(path):
    """(number of the line, what is wrong)"""
    may = set().union(*(kinds for own, (kinds, _) in OWN_PYTHON.items() if path == own or (own.endswith("/") and path.startswith(own))))
    with open(os.path.join(ROOT, path), encoding="utf8") as file:
        text = file.read()
    if SLEEPS not in may:
        for number, line in enumerate(text.splitlines(), 1):
            if PYTHON_SLEEP.search(line):
                yield number, "sleeps: wait by until(), or make a pace by hold() (tests/rig/world)"
    if ASSERTS not in may:
        for number in sorted(elapsed_lines(ast.parse(text))):
            yield number, "asserts on elapsed time: count turns (tests/rig/world/until.py)"


def main():
    wrong = []
    for top in [*PRODUCT, "tests"]:
        refused = [(SLEEP, "sleeps: wait by eventually(), tests/unit/eventually.h"),
                   (AT_MOST, "asserts on elapsed time: hold the clocks, tests/unit/own_clocks.h")] if top == "tests" else [
                       (CLOCK, "asks the system for the time: use common/clock.h"), (WAIT, "waits by the system's clock: use common/wait_for.h")]
        for path in sources(top):
            if path not in OWN:
                wrong += [f"{path}:{number}: {why}" for number, line in code_of(path) for pattern, why in refused if pattern.search(line)]
    own = os.path.relpath(os.path.abspath(__file__), ROOT)
    wrong += [f"{path}:{number}: {why}" for path in python_sources("tests") if path != own for number, why in wrong_in_python(path)]
    wrong += [f"{path}: is not there any more: tests/structure/clocks.py names it" for path in [*OWN, *OWN_PYTHON]
              if not os.path.exists(os.path.join(ROOT, path))]
    if "--json" in sys.argv[1:]:
        print(json.dumps({"wrong": wrong}))
    else:
        print("\n".join(wrong) or "one clock, one wait")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
