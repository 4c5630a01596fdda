"""Figures of the parsers: what hostile bytes and every kind of frame make of them. docs/figures.md says how each is
measured."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from figure import at_least
from fuzzing import COVERED, SANITIZED, TARGETS, Crash, build, coverage, fuzz, share
from rig import PROGRAMS, build_release, say
from session import ROOT, SessionError, tail

EXECUTIONS = 10_000_000
POLICY_EXECUTIONS = 1_000_000  # a YAML file costs a hundred frames
COVERAGE = 0.9
CASES = 150
AT_A_TIME = 2
SLOWEST_FIRST = ("snapshot", "feed", "policy", "wire", "frame")


def beside(build_folder, name):
    """A build of another kind, next to the release build: what scripts/fuzz uses."""
    return build_folder + "-" + name


def fuzz_all(build_folder, _folder):
    """Every target for its number of executions, AT_A_TIME of them at a time."""
    folder = beside(build_folder, "address")
    build(folder, SANITIZED, list(TARGETS))

    def one(name):
        say(f"frames: fuzzing {name}")
        try:
            run = fuzz(folder, name, runs=POLICY_EXECUTIONS if name == "policy" else EXECUTIONS)
        except Crash as crash:
            say(f"frames: {crash}")
            return name, None
        say(f"frames: {run.line()}")
        return name, run

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        runs = dict(pool.map(one, SLOWEST_FIRST))
    crashed = [name for name, run in runs.items() if run is None]
    executions = {name: 0 if run is None else run.executions for name, run in runs.items()}
    least = min(count for name, count in executions.items() if name != "policy")
    note = ", ".join(f"{name} {run.executions:.3g} at {run.per_second():.0f}/s" for name, run in runs.items() if run)
    if crashed:
        note += "; failed: " + ", ".join(crashed)
    figure = at_least("frames.fuzz_executions_min", least, EXECUTIONS, "executions", note)
    if executions["policy"] < POLICY_EXECUTIONS:
        figure.status = "short"
    return [figure], {name: run and vars(run) for name, run in runs.items()}


def fuzz_coverage(build_folder, _folder):
    """Each parser's own lines that its seeds and its kept corpus reach."""
    folder = beside(build_folder, "coverage")
    build(folder, COVERED, list(TARGETS))
    shares = {}
    for name in TARGETS:
        say(f"frames: coverage of {name}")
        covered, lines = share(coverage(folder, beside(build_folder, "address"), name))
        shares[name] = covered / lines
    note = ", ".join(f"{name} {value:.3f}" for name, value in shares.items())
    return [at_least("frames.fuzz_coverage_min", min(shares.values()), COVERAGE, "share", note)], shares


def cases(build_folder, folder):
    """Rows of the send and expect test, through the real data plane."""
    build_release(build_folder, PROGRAMS)
    path = os.path.join(folder, "send-expect.json")
    say("frames: sending every row of send_expect")
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/smoke/send_expect.py"), "--json", path],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
                          env=dict(os.environ, WEIR_BUILD=build_folder))
    if not os.path.exists(path):
        raise SessionError(f"send_expect.py ended with {done.returncode}: {tail(done.stdout, 5)}")
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    note = "{rows} rows, {frames} frames, {comparisons} comparisons, {failures} failures".format(**result)
    figure = at_least("frames.cases", result["rows"], CASES, "rows", note)
    if result["failures"] or done.returncode != 0:
        say(tail(done.stdout, 30))
        figure.status = "short"
    return [figure], result


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("frames.cases",), cases),
    (("frames.fuzz_executions_min",), fuzz_all),
    (("frames.fuzz_coverage_min",), fuzz_coverage),  # after the executions: they fill the corpus
)
