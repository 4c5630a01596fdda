"""Figures of the tests themselves: whether they wait as they should, what they leave out, whether races are found.
docs/develop/figures.md says how each is measured."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import time

import hunter
import smoke_tests
from figure import Figure, at_least, at_most, reported
from rig import say
from session import ROOT, SessionError, tail

NEEDS_BUILD = False  # the hunter hunts scripts
SLEEP = re.compile(r"\btime\.sleep\(|\bsleep_(?:for|until)\(|\bu?sleep\(|\bnanosleep\(")
SILENT = re.compile(r"\bWARN\(|if \(\w*:*kIsSanitized\) return;")
HELPERS = ("tests/rig/world/until.py", "tests/rig/world/pace.py", "tests/unit/eventually.h")
COLD_MIN, WARM_MIN, CHANGED_S, GREEN = 20, 12, 15, 20
RUNS = int(os.environ.get("WEIR_GREEN_RUNS", GREEN))  # each of a quarter of an hour
# They measure, or make the pace of traffic and load.
PACE = ("tests/bench/", "tests/reproduce/", "tests/xdp/traffic.cpp", "tests/inject/", "tests/rig/run/hunter.py", "tests/smoke/test_races_found.py")


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


def hunter_caught(build, _folder):
    done = subprocess.run([smoke_tests.PYTEST, smoke_tests.node_of("races_found"), "-k", "finds_a_race"], capture_output=True, text=True,
                          env={**os.environ, "WEIR_BUILD": build})
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed)", done.stdout)}
    if not counts:
        raise SessionError(tail(done.stdout + done.stderr))
    caught, of = counts.get("passed", 0), sum(counts.values())
    note = f"{caught} of {of} kinds of race are found"
    return [Figure("tests.hunter_caught", caught, f">={of}", "kinds", "ok" if caught == of else "short", note)], {"told": done.stdout}


def timed(command, folder, cache, load=None):
    """(seconds, lines) of a command of this clone that has to succeed. load: goes on beside it."""
    data = os.path.realpath(os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data")))
    say(f"figures: {' '.join(command)} in a fresh clone")
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               env=dict(os.environ, WEIR_DATA=data, CCACHE_DIR=cache))
    if load:
        load.begin(process.pid)
    told, _ = process.communicate()
    if load:
        load.end()
    if process.returncode != 0:
        raise SessionError(tail(told, 60))
    return time.monotonic() - start, told.splitlines()


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
        with open(os.path.join(clone, "control/base/loop/loop.cpp"), "a", encoding="utf-8") as file:
            file.write(f"// change {number}\n")
        took.append(timed(["scripts/test", "--changed", "HEAD"], clone, os.path.join(folder, "cache"))[0])
    return [at_most("tests.changed_s", round(statistics.median(took[1:]), 1), CHANGED_S, "s", f"the first build {took[0]:.0f} s")], {"seconds": took}


def green_in_a_row(_build, folder):
    """Every second run is beside busy processors and programs that stop for a moment. The first that fails ends it."""
    clone, told, green = fresh_clone(folder), [], 0
    try:
        for green in range(RUNS):
            load = hunter.Load(f"green {green}", False, ("stops", "busy")) if green % 2 else None
            seconds, lines = timed([".ci/run"], clone, os.path.join(folder, "cache"), load)
            told.append(f"{lines[-1]}, {seconds:.0f} s")
            say(f"figures: run {green + 1}: {told[-1]}")
        green = RUNS
    except SessionError as error:
        told.append(str(error))
    return [at_least("tests.green_in_a_row", green, GREEN, "runs", f"every second beside load; {told[-1].splitlines()[-1]}")], {"runs": told}


MEASUREMENTS = [(("tests.green_in_a_row",), green_in_a_row),
                (("tests.commit_min_cold", "tests.commit_min_warm"), commit), (("tests.release_min",), release), (("tests.changed_s",), changed),
                (("tests.sleeps",), sleeps), (("tests.silent_skips",), silent_skips), (("tests.lines",), lines),
                (("tests.hunter_caught",), hunter_caught)]
