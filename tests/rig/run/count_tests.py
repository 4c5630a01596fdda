"""Prints "PASSED FAILED SKIPPED" of a Meson testlog.json (one JSON object a line). On stderr it names each skipped test, and each failed
one with its evidence and the command that runs it again.

    count_tests.py LOG [--require] [--times FILE] [--failures FILE]

A reason to skip begins with a word (docs/develop/testing.md). With --require only a test that this machine cannot run may be
skipped; any other skip is a failure. --times: adds a line "SECONDS NAME" for each test. --failures: adds the last lines
that each failed test printed.
"""
import argparse
import json
import sys

# No package, right or download mends these. The suite `unsanitized` runs what sanitizers skip.
CANNOT = ("kernel", "memory", "processors", "sanitizer")
LAST_LINES, LINE_CHARS = 40, 300

parser = argparse.ArgumentParser()
parser.add_argument("log")
parser.add_argument("--require", action="store_true")
parser.add_argument("--times")
parser.add_argument("--failures")
arguments = parser.parse_args()
counts, times, failures = {"OK": 0, "FAIL": 0, "SKIP": 0}, [], []
with open(arguments.log, encoding="utf-8") as log:
    for test in map(json.loads, log):
        result = test["result"] if test["result"] in ("OK", "SKIP") else "FAIL"
        lines = f"{test.get('stdout') or ''}\n{test.get('stderr') or ''}".strip().splitlines()
        reasons = sorted({line.removeprefix("skipped: ") for line in lines if line.startswith("skipped: ")})
        if result == "SKIP":
            reasons = reasons[-1:] or lines[-1:] or ["no reason given"]
        elif result == "OK":
            counts["SKIP"] += len(reasons)  # parts of it
        for reason in reasons if result != "FAIL" else ():
            told = "skipped" if result == "SKIP" else "skipped a part of"
            if arguments.require and reason.split(":")[0] not in CANNOT:
                result, told = "FAIL", "FAILED, because it was skipped:"
            print(f"test: {told} {test['name']}: {reason}", file=sys.stderr)
        if result == "FAIL":
            kept = [line for line in lines if line.startswith(("evidence: ", "again: "))]
            print("\n".join([f"test: FAILED {test['name']}", *(f"test:   {line}" for line in kept)]), file=sys.stderr)
            failures += [f"test: {test['name']} printed last:\n", *(f"  {line[:LINE_CHARS]}\n" for line in lines[-LAST_LINES:])]
        counts[result] += 1
        times.append(f"{test['duration']:.1f} {test['name'].split(' / ')[-1]}\n")
if arguments.times:
    with open(arguments.times, "a", encoding="utf-8") as file:
        file.writelines(times)
if arguments.failures:
    with open(arguments.failures, "a", encoding="utf-8") as file:
        file.writelines(failures)
print(counts["OK"], counts["FAIL"], counts["SKIP"])
