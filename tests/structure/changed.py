#!/usr/bin/env python3
"""`scripts/test --changed` finds the tests of what has changed.
    changed.py BUILD    exit 1: it does not
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "rig"))
import rooms  # noqa: E402,F401
import changed_tests  # noqa: E402
import hunter  # noqa: E402

ROWS = (("control/base/loop/loop.cpp", {"loop"}), ("control/base/loop/loop.h", {"loop"}), ("control/policy/feeds/apart.cpp", {"policy", "policy-apart"}),
        ("tests/unit/control/tell/web/test_server.cpp", {"web"}), ("tests/unit/bpf/plane.h", {"xdp", "xdp-faults"}),
        ("tests/smoke/test_fleet.py", {"fleet"}), ("README.md", set()))

tests = hunter.tests_of(sys.argv[1], None, None)
wrong = 0
for path, expected in ROWS:
    changed_tests.changed_since = lambda _commit, changed=path: {os.path.join(ROOT, changed)}
    found = {test["name"] for test in changed_tests.of_changed(sys.argv[1], tests, "HEAD")}
    if not expected <= found or bool(expected) != bool(found):
        print(f"{path}: found {sorted(found)}, expected {sorted(expected)}")
        wrong += 1
print(f"{len(ROWS)} changes, {wrong} of them wrong")
sys.exit(1 if wrong else 0)
