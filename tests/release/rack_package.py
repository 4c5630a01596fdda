"""Figures of the packages: what lintian finds, and how soon after `apt install` the first frame is dropped. docs/develop/figures.md
says how each is measured."""

import json
import os
import subprocess

from figure import at_most
from packages import PackageError, build_packages, lint
from rig import Skip, say
from session import ROOT, SessionError, tail

INSTALL_TO_BLOCK_S = 30


def lintian(_build, folder):
    say("figures: building packages of what is committed")
    try:
        packages = build_packages(os.path.join(folder, "debs"))
        findings = lint(packages)
    except PackageError as error:
        raise SessionError(str(error)) from error
    return [at_most("rack.lintian", len(findings), 0, "findings", f"{len(packages.debs)} packages, built in {packages.seconds:.0f} s; "
                    "up to pedantic")], {"findings": findings}


def install_to_block(_build, folder):
    path = os.path.join(folder, "rack.json")
    say("figures: a Debian 12 in QEMU, with packages of what is committed")
    done = subprocess.run([os.path.join(ROOT, "tests/rack/run"), "--json", path, "--step", "installs", "--step", "blocks"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode == 77:
        raise Skip(tail(done.stdout, 1), missing_here=True)
    if done.returncode != 0:
        raise SessionError(tail(done.stdout, 30))
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    parts = result["parts"]
    note = "TCG, 2 CPUs; " + ", ".join(f"{name} {parts[name]:.0f}" for name in ("apt", "cards", "data plane", "policy"))
    return [at_most("rack.install_to_block_s", round(parts["install_to_block"]), INSTALL_TO_BLOCK_S, "s", note)], result


MEASUREMENTS = (
    (("rack.lintian",), lintian),
    (("rack.install_to_block_s",), install_to_block),
)
