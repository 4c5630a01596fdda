"""scripts/demo runs to its end. Its output shows traffic without loss, a reload that exchanges two lists, and bypass."""

import os
import re
import subprocess

import pytest

from weir_smoke import BUILD, ROOT, run

pytestmark = [pytest.mark.alone, pytest.mark.timeout(180)]


def check_steps(text):
    for expected in ("$ controlctl status", "$ controlctl stats", "$ controlctl explain", "$ controlctl reload",
                     "$ controlctl bypass on", "$ controlctl bypass off", "Both programs ended cleanly"):
        assert expected in text, f"`{expected}` is not in the demo's output:\n{text}"
    assert re.search(r"\d packets, 0 lost", text), f"no packet is lost:\n{text}"


def check_reload(text):
    """Before it scanners drops and botnet does not; after it botnet drops and scanners does not."""
    drops = re.findall(r"list (scanners|botnet): drops ([\d,]+) packets/s", text)[-4:]
    assert ([(name, rate != "0") for name, rate in drops]
            == [("scanners", True), ("botnet", False), ("scanners", False), ("botnet", True)]), f"lists that drop: {drops}"


def check_bypass(text):
    dropped = re.findall(r"passed [\d,]+ packets/s, dropped ([\d,]+) packets/s", text)[-2:]
    assert dropped[0] == "0" != dropped[1], f"packets dropped in bypass, and after it: {dropped}"


def test_the_demo_shows_its_steps():
    if subprocess.run([os.path.join(ROOT, "scripts/setup"), "demo", "--check"], stdout=subprocess.DEVNULL).returncode != 0:
        pytest.skip("package: scripts/setup demo --check misses packages: the demo would install them")
    text = run(os.path.join(ROOT, "scripts/demo"), "--build", BUILD)
    check_steps(text)
    check_reload(text)
    check_bypass(text)
