"""Figures of the project itself: how soon a newcomer has it running, whether its folders keep
to what they may use. docs/develop/figures.md says how each is measured."""

import json
import os
import subprocess
import sys
import tempfile

from figure import at_most, reported
from session import ROOT, SessionError, tail

NEEDS_BUILD = False  # a figure here that does calls build_release(build)
CLONE_TO_DEMO_S = 240


def clone_to_demo(_build, _folder):
    # A process of its own: it mounts in a namespace that it does not leave again.
    with tempfile.TemporaryDirectory(prefix="weir-house-") as folder:
        path = os.path.join(folder, "fresh.json")
        done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts/fresh"), "--json", path], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode != 0:
            raise SessionError(tail(done.stdout))
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    demo = result["commands"]["scripts/demo"]
    parts = ", ".join(f"{name} {value:.0f}" for name, value in demo.items() if name != "all")
    return [at_most("house.clone_to_demo_s", round(result["clone_s"] + demo["all"]), CLONE_TO_DEMO_S, "s",
                    f"clone {result['clone_s']:.0f}, {parts}"),
            reported("house.download_s", round(result["download_s"]), "s",
                     f"{result['packages']} packages, {result['download_mib']} MiB")], result


def includes(_build, _folder):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/structure/includes.py"), "--json"], stdout=subprocess.PIPE,
                          text=True)
    result = json.loads(done.stdout)
    return [at_most("house.includes_against", result["against"], 0, "includes",
                    f"{result['files']} files in {result['folders']} folders")], result


MEASUREMENTS = (
    (("house.clone_to_demo_s", "house.download_s"), clone_to_demo),
    (("house.includes_against",), includes),
)
