"""A test that fails leaves its logs, what it did, and the stacks of its programs; one that passes or is skipped leaves nothing."""

import os
import shutil
import subprocess
import sys

import pytest

from weir_smoke import BUILD, ROOT, read, write

POLICY = "version: 1\ntargets: []\nlists: [{name: bad, action: drop, entries: [192.0.2.1]}]\n"
BEGIN = f"""
import time
import pytest
from weir_smoke import write

@pytest.mark.timeout(4)
def test_so(session):
    session.start_controld(write(session.folder, "weir.yaml", {POLICY!r}), targets=False)
    session.call("explain", key="192.0.2.1")
"""
FAILS = {"fails": "    assert False, 'it is so'\n", "raises": "    session.wait('never', lambda: 1 / 0)\n", "hangs": "    while True: pass\n"}
LEAVES_NOTHING = {"passes": "", "skips": "    pytest.skip('kernel: so')\n"}


@pytest.fixture
def run_so(folder):
    """Runs a test that ends so, by this project's conftest.py: (exit code, what it printed, the folder of its evidence)."""
    smoke, evidence = os.path.join(ROOT, "tests/smoke"), os.path.join(folder, "evidence")

    def run(name, end):
        path = write(folder, f"test_{name}.py", BEGIN + end)
        done = subprocess.run([sys.executable, "-m", "pytest", "-c", os.path.join(smoke, "pytest.ini"), "-p", "conftest", path],
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, "WEIR_BUILD": BUILD, "WEIR_EVIDENCE": evidence, "PYTHONPATH": smoke})
        return done.returncode, done.stdout + done.stderr, os.path.join(evidence, f"{name}.so")
    return run


@pytest.mark.parametrize("name", LEAVES_NOTHING)
def test_nothing_is_left_of(name, run_so):
    code, told, place = run_so(name, LEAVES_NOTHING[name])
    assert code == 0 and not os.path.exists(place) and "evidence" not in told, told


@pytest.mark.parametrize("name", FAILS)
def test_evidence_is_kept_of_what(name, run_so):
    code, told, place = run_so(name, FAILS[name])
    assert code == 1, told
    session, = (one for one in os.listdir(place) if one.startswith("weir-"))
    kept = {file: read(os.path.join(place, session, file)).decode() for file in ("controld.log", "weir.yaml", "stacks.txt")}
    assert " ready " in kept["controld.log"] and kept["weir.yaml"] == POLICY, kept
    assert "=== process " in kept["stacks.txt"] and "controld" in kept["stacks.txt"], kept["stacks.txt"]
    if shutil.which("eu-stack"):
        assert kept["stacks.txt"].count("TID ") >= 2 and "main" in kept["stacks.txt"], f"stacks of all threads: {kept['stacks.txt']}"
    timeline = read(os.path.join(place, "timeline.txt")).decode()
    for part in ("controld starts: ", "waited for controld to have compiled its policy", "call explain {'key': '192.0.2.1'} took ", "FAILED: "):
        assert part in timeline, f"{part} is in the timeline: {timeline}"
    for part in (f"evidence: {place}", f"again: scripts/test --test {name}::so", "call explain"):
        assert part in told, f"{part} is printed: {told}"
    # The next run that passes leaves nothing of the one before.
    code, told, place = run_so(name, "")
    assert code == 0 and not os.path.exists(place), told
