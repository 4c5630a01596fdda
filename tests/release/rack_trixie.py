"""Figures of other systems: whether everything passes on Debian 13, and whether clang builds it, here and there."""

import os
import re
import subprocess

from figure import at_most
from rig import Skip, say
from session import ROOT, SessionError, tail
from test_on import SKIPPED

SUITE = "trixie"
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
VERSIONS = ("echo DPDK $(pkg-config --modversion libdpdk), $({} --version | head -n 1), Catch2 $(pkg-config --modversion catch2 || "
            "pkg-config --modversion catch2-with-main)")


def run_tests(*arguments):
    """(passed, failed, skipped, lines) of scripts/test."""
    say(f"figures: scripts/test {' '.join(arguments)}")
    done = subprocess.run([os.path.join(ROOT, "scripts/test"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    lines = done.stdout.splitlines()
    if done.returncode == SKIPPED:
        raise Skip(lines[-1] if lines else "scripts/test could not be tried", missing_here=True)
    if not lines or not (closing := CLOSING.match(lines[-1])):
        raise SessionError(f"scripts/test {' '.join(arguments)} ended with {done.returncode} and no count:\n{tail(done.stdout, 40)}")
    return *(int(number or 0) for number in closing.groups()), lines


def versions(compiler, root=""):
    command = ["/bin/sh", "-c", VERSIONS.format(compiler)]
    return subprocess.run(["chroot", root, *command] if root else command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False).stdout.strip()


def trixie(_build, folder):
    root = os.path.join(folder, SUITE)
    passed, failed, skipped, lines = run_tests("--on", SUITE, "--root", root)
    return [at_most("rack.trixie_failed", failed, 0, "tests", f"{passed} passed, {skipped} skipped; Debian 13, {versions('g++', root)}")], lines


def clang(_build, folder):
    root = os.path.join(folder, SUITE)  # with its packages, when rack.trixie_failed was measured before
    here = run_tests("--compiler", "clang")
    there = run_tests("--on", SUITE, "--root", root, "--compiler", "clang")
    notes = [f"{name}: {passed} passed, {skipped} skipped, {what}" for name, what, (passed, _, skipped, _) in
             (("here", versions("clang++"), here), ("Debian 13", versions("clang++", root), there))]
    return [at_most("rack.clang_failed", here[1] + there[1], 0, "tests", "; ".join(notes))], here[3] + there[3]


MEASUREMENTS = (
    (("rack.trixie_failed",), trixie),
    (("rack.clang_failed",), clang),
)
