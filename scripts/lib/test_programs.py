"""Prints the ninja targets that the tests of some suites of a Meson build run: FOLDER SUITE..."""
import json
import os
import subprocess
import sys

folder, suites = os.path.abspath(sys.argv[1]), {"weir:" + suite for suite in sys.argv[2:]}
tests = json.loads(subprocess.check_output(["meson", "introspect", "--tests", folder]))
programs = {test["cmd"][0] for test in tests if suites & set(test["suite"])}
print(*sorted(os.path.relpath(program, folder) for program in programs if program.startswith(folder + os.sep)))
