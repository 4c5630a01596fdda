"""Figures of the tests themselves: whether they wait as they should, what they leave out, whether races are found.
docs/develop/figures.md says how each is measured."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import time

from figure import Figure, at_most, reported
from rig import say
from session import ROOT, SessionError, tail

NEEDS_BUILD = False  # the hunter hunts scripts
SLEEP = re.compile(r"\btime\.sleep\(|\bsleep_(?:for|until)\(|\bu?sleep\(|\bnanosleep\(")
SILENT = re.compile(r"\bWARN\(|if \(\w*:*kIsSanitized\) return;")
HELPERS = ("tests/rig/world/until.py", "tests/unit/eventually.h")
# They measure, or make the pace of traffic and load.
COLD_MIN, WARM_MIN, CHANGED_S = 20, 12, 15
PACE = ("tests/bench/", "tests/reproduce/", "tests/xdp/traffic.cpp", "tests/inject/", "tests/rig/run/hunter.py", "tests/smoke/races_found.py")


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
    counts = found(SLEEP, "tests")
    smoke = sum(n for path, n in counts.items() if path.startswith("tests/smoke"))
    unit = sum(n for path, n in counts.items() if path.startswith("tests/unit"))
    return [at_most("tests.sleeps", sum(counts.values()), 0, "sleeps", f"in {len(counts)} files; tests/unit {unit}, tests/smoke {smoke}")], counts


def silent_skips(_build, _folder):
    counts = found(SILENT, "tests")
    return [at_most("tests.silent_skips", sum(counts.values()), 0, "places", "")], counts


def lines(_build, _folder):
    counts = {path: len(text) for path, text in sources("tests") if not path.startswith(("tests/bench", "tests/reproduce"))}
    of = {top: sum(n for path, n in counts.items() if path.startswith(top)) for top in ("tests/unit", "tests/smoke", "tests/rig")}
    return [reported("tests.lines", sum(counts.values()), "lines", ", ".join(f"{top} {n}" for top, n in of.items()))], counts


def hunter_caught(_build, _folder):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/smoke/races_found.py")], capture_output=True, text=True)
    told = re.search(r"(\d+) of (\d+) kinds of race are found", done.stdout)
    if done.returncode != 0 or not told:
        raise SessionError(tail(done.stdout + done.stderr))
    caught, of = map(int, told.groups())
    return [Figure("tests.hunter_caught", caught, f">={of}", "kinds", "ok" if caught == of else "short", told[0])], {"told": done.stdout}


def timed(command, folder, cache):
    """(seconds, lines) of a command of this clone that has to succeed."""
    data = os.path.realpath(os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data")))
    say(f"figures: {' '.join(command)} in a fresh clone")
    start = time.monotonic()
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env=dict(os.environ, WEIR_DATA=data, CCACHE_DIR=cache))
    if done.returncode != 0:
        raise SessionError(tail(done.stdout, 60))
    return time.monotonic() - start, done.stdout.splitlines()


def fresh_clone(folder):
    clone = os.path.join(folder, "weir")  # at the same place each time, for the cache
    shutil.rmtree(clone, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    return clone


def note_of(lines):
    phases = "; ".join(line.removeprefix("test: phase ") for line in lines if line.startswith("test: phase "))
    return f"{lines[-1]}; {phases}"


def commit(_build, folder):
    figures, told = [], {}
    for name, most in (("cold", COLD_MIN), ("warm", WARM_MIN)):
        seconds, lines = timed([".ci/run"], fresh_clone(folder), os.path.join(folder, "cache"))
        figures.append(at_most(f"tests.commit_min_{name}", round(seconds / 60, 1), most, "min", note_of(lines)))
        told[name] = lines
    return figures, told


def release(_build, folder):
    seconds, lines = timed(["scripts/test", "--release"], fresh_clone(folder), os.path.join(folder, "cache"))
    return [reported("tests.release_min", round(seconds / 60, 1), "min", note_of(lines))], {"output": lines}


def changed(_build, folder):
    clone, took = fresh_clone(folder), []
    for number in range(4):
        with open(os.path.join(clone, "control/loop/loop.cpp"), "a", encoding="utf-8") as file:
            file.write(f"// change {number}\n")
        took.append(timed(["scripts/test", "--changed", "HEAD"], clone, os.path.join(folder, "cache"))[0])
    return [at_most("tests.changed_s", round(statistics.median(took[1:]), 1), CHANGED_S, "s", f"the first build {took[0]:.0f} s")], {"seconds": took}


MEASUREMENTS = [(("tests.commit_min_cold", "tests.commit_min_warm"), commit), (("tests.release_min",), release), (("tests.changed_s",), changed),
                (("tests.sleeps",), sleeps), (("tests.silent_skips",), silent_skips), (("tests.lines",), lines),
                (("tests.hunter_caught",), hunter_caught)]
