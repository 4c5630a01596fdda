"""Prints the ninja targets that the tests of some suites of a build run: FOLDER SUITE... [--test NAME]..."""
import json
import os
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
import smoke_tests

def introspect(folder, what):
    return json.loads(subprocess.check_output(["meson", "introspect", "--" + what, folder]))


folder = os.path.abspath(sys.argv[1])
suites = {name for before, name in zip(sys.argv[1:], sys.argv[2:]) if before != "--test" and name != "--test"}
names = {name for before, name in zip(sys.argv[1:], sys.argv[2:]) if before == "--test"}
needed = {identity for test in introspect(folder, "tests") if suites & {suite.removeprefix("weir:") for suite in test["suite"]} or test["name"] in names
          for identity in test["depends"]}
files = {file for target in introspect(folder, "targets") if target["id"] in needed for file in target["filename"]}
of_smoke = suites | {"slow" if smoke_tests.is_slow(name) else "smoke" for name in names if smoke_tests.node_of(name)}
print(*sorted(os.path.relpath(file, folder) for file in files), *(smoke_tests.PROGRAMS[suite] for suite in of_smoke & set(smoke_tests.PROGRAMS)))
