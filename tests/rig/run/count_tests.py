"""Prints "PASSED FAILED SKIPPED" of what Meson (testlog.json: one JSON object a line) or pytest (JUnit's XML) wrote. On stderr it names
each skipped test, and each failed one with its evidence and the command that runs it again.

    count_tests.py LOG [--require] [--times FILE] [--failures FILE]

A reason to skip begins with a word (docs/develop/testing.md). With --require only a test that this machine cannot run may be
skipped; any other skip is a failure. --times: adds a line "SECONDS NAME" for each test. --failures: adds the last lines
that each failed test printed.
"""
import argparse
import json
import sys
import xml.etree.ElementTree
from dataclasses import dataclass, field

# No package, right or download mends these. The suite `unsanitized` runs what sanitizers skip.
CANNOT = ("kernel", "memory", "processors", "sanitizer")
LAST_LINES, LINE_CHARS = 40, 300


@dataclass
class Test:
    name: str
    result: str   # OK, FAIL, SKIP
    seconds: float
    reasons: list  # why it, or a part of it, was skipped
    kept: list    # lines: its evidence, the command that runs it again
    lines: list = field(default_factory=list)  # that it printed


def of_meson(log):
    for test in map(json.loads, log):
        result = test["result"] if test["result"] in ("OK", "SKIP") else "FAIL"
        lines = f"{test.get('stdout') or ''}\n{test.get('stderr') or ''}".strip().splitlines()
        reasons = sorted({line.removeprefix("skipped: ") for line in lines if line.startswith("skipped: ")})
        if result == "SKIP":
            reasons = reasons[-1:] or lines[-1:] or ["no reason given"]
        kept = [line for line in lines if line.startswith(("evidence: ", "again: "))]
        yield Test(test["name"], result, test["duration"], reasons, kept, lines)


def of_pytest(log):
    for case in xml.etree.ElementTree.parse(log).iter("testcase"):
        name = f"smoke / {case.get('classname').split('.')[-1].removeprefix('test_')}::{case.get('name').removeprefix('test_')}"
        wrong = [*case.iter("failure"), *case.iter("error")]
        skipped = [one.get("message") for one in case.iter("skipped")]
        printed = [one.text or "" for one in (*wrong, *case.iter("system-out"), *case.iter("system-err"))]
        kept = [f"{one.get('name')}: {one.get('value')}" for one in case.iter("property")]
        yield Test(name, "FAIL" if wrong else "SKIP" if skipped else "OK", float(case.get("time")), skipped, kept,
                   [line for line in "\n".join(reversed(printed)).splitlines() if line and not line.startswith("-----")])


def tests_of(path):
    with open(path, encoding="utf-8") as log:
        yield from of_pytest(log) if path.endswith(".xml") else of_meson(log)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--require", action="store_true")
    parser.add_argument("--times")
    parser.add_argument("--failures")
    arguments = parser.parse_args()
    counts, times, failures = {"OK": 0, "FAIL": 0, "SKIP": 0}, [], []
    for test in tests_of(arguments.log):
        if test.result == "OK":
            counts["SKIP"] += len(test.reasons)  # parts of it
        for reason in test.reasons if test.result != "FAIL" else ():
            told = "skipped" if test.result == "SKIP" else "skipped a part of"
            if arguments.require and reason.split(":")[0] not in CANNOT:
                test.result, told = "FAIL", "FAILED, because it was skipped:"
            print(f"test: {told} {test.name}: {reason}", file=sys.stderr)
        if test.result == "FAIL":
            print("\n".join([f"test: FAILED {test.name}", *(f"test:   {line}" for line in test.kept)]), file=sys.stderr)
            failures += [f"test: {test.name} printed last:\n", *(f"  {line[:LINE_CHARS]}\n" for line in test.lines[-LAST_LINES:])]
        counts[test.result] += 1
        times.append(f"{test.seconds:.1f} {test.name.split(' / ')[-1]}\n")
    for path, added in ((arguments.times, times), (arguments.failures, failures)):
        if path:
            with open(path, "a", encoding="utf-8") as file:
                file.writelines(added)
    print(counts["OK"], counts["FAIL"], counts["SKIP"])


if __name__ == "__main__":
    main()
