"""Prints "PASSED FAILED SKIPPED" of a Meson testlog.json (one JSON object a line); names each skipped test on stderr."""
import json
import sys

counts = {"OK": 0, "FAIL": 0, "SKIP": 0}
for line in open(sys.argv[1], encoding="utf-8"):
    test = json.loads(line)
    result = test["result"] if test["result"] in ("OK", "SKIP") else "FAIL"
    counts[result] += 1
    if result == "SKIP":
        reason = (test.get("stdout") or test.get("stderr") or "no reason given").strip().splitlines()[-1]
        print(f"test: skipped {test['name']}: {reason}", file=sys.stderr)
print(counts["OK"], counts["FAIL"], counts["SKIP"])
