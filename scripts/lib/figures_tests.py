"""Figures of the tests themselves: whether they wait as they should, what they leave out, whether races are found.
docs/develop/figures.md says how each is measured."""

import os
import re
import subprocess
import sys

from figure import Figure, at_most, reported
from session import ROOT, SessionError, tail

NEEDS_BUILD = False  # the hunter hunts scripts
SLEEP = re.compile(r"\btime\.sleep\(|\bsleep_(?:for|until)\(|\bu?sleep\(|\bnanosleep\(")
SILENT = re.compile(r"\bWARN\(|if \(\w*:*kIsSanitized\) return;")
HELPERS = ("scripts/lib/until.py", "tests/unit/eventually.h")
# They measure, or make the pace of traffic and load.
PACE = ("tests/bench/", "tests/reproduce/", "tests/xdp/traffic.cpp", "tests/inject/", "scripts/lib/hunter.py", "tests/smoke/races_found.py")


def sources(*tops):
    told = subprocess.run(["git", "-C", ROOT, "ls-files", *tops], capture_output=True, text=True, check=True)
    for path in told.stdout.splitlines():
        if path.endswith((".py", ".cpp", ".h")):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                yield path, file.read().splitlines()


def found(pattern, *tops):
    """{path: lines} where the pattern is."""
    counts = {path: sum(bool(pattern.search(line)) for line in lines) for path, lines in sources(*tops)
              if path not in HELPERS and not path.startswith(PACE)}
    return {path: n for path, n in counts.items() if n}


def sleeps(_build, _folder):
    counts = found(SLEEP, "tests", "scripts/lib")
    smoke = sum(n for path, n in counts.items() if path.startswith("tests/smoke"))
    unit = sum(n for path, n in counts.items() if path.startswith("tests/unit"))
    return [at_most("tests.sleeps", sum(counts.values()), 0, "sleeps", f"in {len(counts)} files; tests/unit {unit}, tests/smoke {smoke}")], counts


def silent_skips(_build, _folder):
    counts = found(SILENT, "tests")
    return [at_most("tests.silent_skips", sum(counts.values()), 0, "places", "")], counts


def lines(_build, _folder):
    counts = {path: len(text) for path, text in sources("tests", "scripts/lib") if not path.startswith(("tests/bench", "tests/reproduce"))}
    of = {top: sum(n for path, n in counts.items() if path.startswith(top)) for top in ("tests/unit", "tests/smoke", "scripts/lib")}
    return [reported("tests.lines", sum(counts.values()), "lines", ", ".join(f"{top} {n}" for top, n in of.items()))], counts


def hunter_caught(_build, _folder):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/smoke/races_found.py")], capture_output=True, text=True)
    told = re.search(r"(\d+) of (\d+) kinds of race are found", done.stdout)
    if done.returncode != 0 or not told:
        raise SessionError(tail(done.stdout + done.stderr))
    caught, of = map(int, told.groups())
    return [Figure("tests.hunter_caught", caught, f">={of}", "kinds", "ok" if caught == of else "short", told[0])], {"told": done.stdout}


MEASUREMENTS = [(("tests.sleeps",), sleeps), (("tests.silent_skips",), silent_skips), (("tests.lines",), lines),
                (("tests.hunter_caught",), hunter_caught)]
