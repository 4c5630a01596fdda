"""Figures of the papers' experiments: how many of the texts' systems are measured, whether any lost a member or left its formula, how long
all of it takes, and the gate's worst share. docs/develop/figures.md says how each is measured."""

import glob
import importlib
import json
import os
import subprocess
import sys
import time

from figure import Figure, at_least, at_most
from rig import build_release, say
from session import ROOT, SessionError, tail

NEEDS_BUILD = False  # of all programs: scripts/reproduce has its own
SYSTEMS, REPRODUCE_MIN = 18, 12
# Parts of scripts/reproduce that measure one system of the texts each.
OTHER_PARTS = {"page-blocked": "page-blocked Bloom", "rational": "rational Bloom", "variable-blocks": "variably-sized blocks"}
GATE_PASS_SHARE = "survey.gate_pass_share_max"


def programs():
    """Those of all parts of scripts/reproduce."""
    names = [os.path.basename(path).removesuffix(".py") for path in glob.glob(os.path.join(ROOT, "tests/bench/papers/reproduce_*.py"))]
    return sorted({f"tests/reproduce/reproduce_{program}" for name in names
                   for program in getattr(importlib.import_module(name), "PROGRAMS", ())})


def reproduce(build, _folder):
    build_release(build, programs())
    say("survey: scripts/reproduce, all of it")
    start = time.monotonic()
    done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts/reproduce"), "--build", build], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=3600)
    minutes = (time.monotonic() - start) / 60
    if done.returncode != 0:
        raise SessionError(f"scripts/reproduce ended with {done.returncode}:\n{tail(done.stdout)}")
    result = load(build, "survey")
    names = result["systems"] + [name for part, name in OTHER_PARTS.items() if load(build, part)]
    outside = [f"{check['filter']} ({check['what']})" for check in result["checks"]
               if check["reason"] is None and (check["sigmas"] is None or abs(check["sigmas"]) > 3)]
    explained = sum(check["reason"] is not None for check in result["checks"])
    note = f"of {len(result['checks'])}, {explained} explained" + "".join(f"; {name}" for name in outside)
    lists = "" if result["estimates"] else "; no test data: without real lists"
    figures = [at_least("survey.systems_measured", len(names), SYSTEMS, "systems", "; ".join(names) + lists),
               at_most("survey.false_negatives", result["false_negatives"], 0, "members", "of filters that may lose none"),
               at_most("survey.outside_formula", len(outside), 0, "formulas", note),
               at_most("survey.reproduce_min", round(minutes, 1), REPRODUCE_MIN, "min", "scripts/reproduce, all parts, built before"),
               gate_pass_share(build)]
    return figures, {"minutes": minutes, "output": done.stdout.splitlines(), "survey": result}


def load(build, part):
    """What scripts/reproduce found; None without it."""
    path = os.path.join(build, "reproduce", part + ".json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def gate_pass_share(build):
    result = load(build, "gate")
    if result is None:
        return Figure(GATE_PASS_SHARE, status="skipped", note="scripts/reproduce has no part gate", missing_here=True)
    worst = result["worst"]
    if worst["pass_share"] is None:
        return Figure(GATE_PASS_SHARE, status="skipped", note=worst["where"])
    return Figure(GATE_PASS_SHARE, float(worst["pass_share"]), unit="share", note=worst["where"])


MEASUREMENTS = (
    (("survey.systems_measured", "survey.false_negatives", "survey.outside_formula", "survey.reproduce_min", GATE_PASS_SHARE), reproduce),
)
