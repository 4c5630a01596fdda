"""Prints the ninja targets that the tests of some suites of a Meson build run: FOLDER SUITE... [--test NAME]..."""
import json
import os
import subprocess
import sys


def introspect(folder, what):
    return json.loads(subprocess.check_output(["meson", "introspect", "--" + what, folder]))


folder = os.path.abspath(sys.argv[1])
suites = {"weir:" + name for before, name in zip(sys.argv[1:], sys.argv[2:]) if before != "--test" and name != "--test"}
names = {name for before, name in zip(sys.argv[1:], sys.argv[2:]) if before == "--test"}
needed = {identity for test in introspect(folder, "tests") if suites & set(test["suite"]) or test["name"] in names
          for identity in test["depends"]}
files = {file for target in introspect(folder, "targets") if target["id"] in needed for file in target["filename"]}
print(*sorted(os.path.relpath(file, folder) for file in files))
