"""Reloads, and crashes of controld, under traffic whose right verdicts are known: the XDP program never gives a wrong one,
never stops and never mixes two generations (tests/rig/xdp/xdp_swaps.py, in short)."""

import json
import os
import subprocess
import sys

from weir_smoke import BUILD, ROOT, check, equal, skip

if os.geteuid() != 0:
    skip("root: loading an XDP program and making interfaces needs it")
TOOL = os.path.join(ROOT, "tests/rig/xdp/xdp_swaps.py")


def run(*arguments):
    done = subprocess.run(["unshare", "--net", sys.executable, TOOL, *arguments, "--build", BUILD],
                          stdout=subprocess.PIPE, text=True, timeout=150)
    check(done.stdout.startswith("{"), f"{' '.join(arguments)}: counts are printed")
    print(" ".join(arguments) + ": " + done.stdout.strip())
    return json.loads(done.stdout)


swapped = run("swap", "--packets", "2e6")
equal(swapped["wrong"], 0, "wrong verdicts over swaps")
check(swapped["frames"] >= 2_000_000 and swapped["swaps"] >= 2, "frames and swaps there were")
killed = run("kill", "--kills", "8")
equal(killed["wrong"], 0, "wrong verdicts over crashes")
check(killed["frames"] > 100_000, "frames there were")
