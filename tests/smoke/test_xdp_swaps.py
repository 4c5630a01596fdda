"""Under traffic whose right verdicts are known, reloads and crashes of controld never make the XDP program wrong: it never stops
and never mixes two generations. tests/rig/xdp/xdp_swaps.py, in short."""

import json
import os
import subprocess
import sys

import pytest

from weir_smoke import BUILD, ROOT, needs_root

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(180), needs_root("interfaces and XDP need it")]


def test_reloads_make_no_wrong_verdict():
    found = watch("swap", "--packets", "2e6")
    assert found["wrong"] == 0, "wrong verdicts"
    assert found["frames"] >= 2_000_000 and found["swaps"] >= 2, "frames and swaps"


def test_crashes_of_controld_make_no_wrong_verdict():
    found = watch("kill", "--kills", "8")
    assert found["wrong"] == 0, "wrong verdicts"
    assert found["frames"] > 100_000, "frames"


def watch(*arguments):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/rig/xdp/xdp_swaps.py"), *arguments, "--build", BUILD],
                          stdout=subprocess.PIPE, text=True, timeout=150)
    assert done.stdout.startswith("{"), f"{' '.join(arguments)}: exit code {done.returncode} and no counts"
    return json.loads(done.stdout)
