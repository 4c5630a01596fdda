"""The tests of tests/smoke, which pytest runs, as scripts/test, its hunter and scripts/mutate call them.

    smoke_tests.py NAME     prints it as pytest takes it; nothing, when there is none of its file

A name is that of a file, or of one test of it: bypass, or bypass::orders[on].
"""

import glob
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FOLDER = os.path.join(ROOT, "tests", "smoke")
PYTEST = "pytest-3"  # Debian's, whichever Python comes first in PATH
MARKS = {"smoke": "not slow", "slow": "slow"}  # by suite
PROGRAMS = {"smoke": "smoke-programs", "slow": "slow-programs"}  # ninja's targets


def node_of(name, root=ROOT):
    """The name as pytest takes it. None: there is no such file."""
    file, _, test = name.partition("::")
    path = os.path.join(root, "tests", "smoke", f"test_{file}.py")
    if not os.path.exists(path):
        return None
    return f"{path}::test_{test}" if test else path


def is_slow(name):
    """Whether a test of its file is."""
    with open(node_of(name).split("::")[0], encoding="utf-8") as file:
        return "pytest.mark.slow" in file.read()


def names_of(suite=None):
    """Names of files: all, or those with tests of one suite."""
    if suite is None:
        nodes = glob.glob(os.path.join(FOLDER, "test_*.py"))
    else:
        done = subprocess.run([PYTEST, FOLDER, "--collect-only", "-q", "-m", MARKS[suite]], capture_output=True, text=True, check=True)
        nodes = [line.split("::")[0] for line in done.stdout.splitlines() if "::" in line]
    return sorted({os.path.basename(node).removeprefix("test_").removesuffix(".py") for node in nodes})


if __name__ == "__main__":
    print(node_of(sys.argv[1]) or "", end="")
