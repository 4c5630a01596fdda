#!/usr/bin/env python3
"""Time comes from one place, and tests wait in one place.

The product asks the system for the time in common/clock.cpp alone, and waits for it by common/wait_for.h: a test can then
hold and move its clocks (tests/unit/own_clocks.h). A test in C++ sleeps in tests/unit/eventually.h alone, and asserts
nothing on how long something took at most: a machine that stands still would fail it.
    clocks.py [--json]    exit 1: some line does otherwise
"""
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


def main():
    wrong = []
    for top in [*PRODUCT, "tests"]:
        refused = [(SLEEP, "sleeps: wait by eventually(), tests/unit/eventually.h"),
                   (AT_MOST, "asserts on elapsed time: hold the clocks, tests/unit/own_clocks.h")] if top == "tests" else [
                       (CLOCK, "asks the system for the time: use common/clock.h"), (WAIT, "waits by the system's clock: use common/wait_for.h")]
        for path in sources(top):
            if path not in OWN:
                wrong += [f"{path}:{number}: {why}" for number, line in code_of(path) for pattern, why in refused if pattern.search(line)]
    wrong += [f"{path}: is not there any more: tests/structure/clocks.py names it" for path in OWN if not os.path.exists(os.path.join(ROOT, path))]
    if "--json" in sys.argv[1:]:
        print(json.dumps({"wrong": wrong}))
    else:
        print("\n".join(wrong) or "one clock, one wait")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
