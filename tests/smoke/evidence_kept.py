"""A test that fails leaves its logs, what it did, and the stacks of its programs; one that passes leaves nothing."""

import os
import shutil
import subprocess
import sys

from weir_smoke import BUILD, ROOT, check, equal, read, temporary_folder, write

POLICY = "version: 1\ntargets: []\nlists: [{name: bad, action: drop, entries: [192.0.2.1]}]\n"
BEGIN = f"""
import sys, time
sys.path.insert(0, {os.path.join(ROOT, "tests/smoke")!r})
from weir_smoke import BUILD, Session, check, write
with Session(BUILD) as session:
    session.start_controld(write(session.folder, "weir.yaml", {POLICY!r}), targets=False)
    session.call("explain", key="192.0.2.1")
"""
ENDS = {"passes": "", "skips": "    sys.exit(77)\n", "fails": "    check(False, 'it is so')\n", "raises": "    session.wait('never', lambda: 1 / 0)\n",
        "hangs": "    time.sleep(1000)\n"}


def run(folder, name, end):
    """(exit code, what it printed, the folder of its evidence) of a test that ends so."""
    path = write(folder, f"{name}.py", BEGIN + end)
    place = os.path.join(folder, "evidence")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "WEIR_BUILD": BUILD, "WEIR_EVIDENCE": place, "WEIR_TEST_SECONDS": "6"})
    return done.returncode, done.stdout + done.stderr, os.path.join(place, name)


def check_kept(name, told, place):
    session, = (one for one in os.listdir(place) if one.startswith("weir-"))
    kept = {file: read(os.path.join(place, session, file)).decode() for file in ("controld.log", "weir.yaml", "stacks.txt")}
    check(" ready " in kept["controld.log"] and kept["weir.yaml"] == POLICY, f"{name}: {kept}")
    check(f"=== process " in kept["stacks.txt"] and "controld" in kept["stacks.txt"], f"{name}: {kept['stacks.txt']}")
    if shutil.which("eu-stack"):
        check(kept["stacks.txt"].count("TID ") >= 2 and "main" in kept["stacks.txt"], f"{name}: stacks of all threads: {kept['stacks.txt']}")
    timeline = read(os.path.join(place, "timeline.txt")).decode()
    for part in ("controld starts: ", "waited for controld to have compiled its policy", "call explain {'key': '192.0.2.1'} took "):
        check(part in timeline, f"{name}: {part} is in the timeline: {timeline}")
    for part in (f"evidence: {place}", f"again: scripts/test --test {name}", "call explain"):
        check(part in told, f"{name}: {part} is printed: {told}")


with temporary_folder() as folder:
    for name, end in ENDS.items():
        code, told, place = run(folder, name, end)
        equal(code, {"passes": 0, "skips": 77}.get(name, 1), f"{name}: exit code: {told}")
        if name in ("passes", "skips"):
            check(not os.path.exists(place) and "evidence" not in told, f"{name}: nothing is kept: {told}")
        else:
            check_kept(name, told, place)
    # The next run that passes leaves nothing of the one before.
    shutil.copy(os.path.join(folder, "passes.py"), os.path.join(folder, "fails.py"))
    code, told, place = run(folder, "fails", "")
    check(code == 0 and not os.path.exists(place), f"nothing is left: {told}")
