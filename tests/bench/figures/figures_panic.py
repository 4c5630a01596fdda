"""The figure of the panic switch, of all that may hold it up. docs/develop/figures.md says how it is measured."""

import json
import os
import subprocess
import sys

from figure import at_most, reported
from panic import row_text
from rig import PROGRAMS, Skip, build_release
from session import ROOT, SessionError

WORST_MS = 100
ENTRIES, TIMES = 10_000_000, 5


def bypass_ms_worst(build, _folder):
    if os.geteuid() != 0:
        raise Skip("root: interfaces and disks of its own need it")
    build_release(build, PROGRAMS)
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/rig/faults/panic.py"), "--build", build, "--entries", str(ENTRIES),
                           "--times", str(TIMES)], stdout=subprocess.PIPE, text=True, timeout=3600)
    if done.returncode != 0:
        raise SessionError(f"panic.py ended with {done.returncode}")
    result = json.loads(done.stdout)
    worst = max(result["rows"], key=lambda row: row["own_ms"])
    longest = max(result["rows"], key=lambda row: row["worst_ms"])
    orders = sum(row["n"] for row in result["rows"])
    busy = f"load of the machine {result['load'][2]:.1f} on {os.cpu_count()} processors, one of them the worker's"
    stopped = max(result["stops"], key=lambda row: row["ms"])
    return [
        at_most("safe.bypass_ms_worst", worst["own_ms"], WORST_MS, "ms",
                f"{row_text(worst)}; by the clock, {row_text(longest)}; {orders} verdicts in {len(result['rows'])} rows; {busy}"),
        reported("safe.stop_ms_worst", stopped["ms"], "ms",
                 "; ".join(f"{row['program']}, {row['at']}: {row['ms']:.0f} ms" for row in result["stops"]) + f"; {busy}"),
    ], result
