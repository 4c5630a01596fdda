"""A pair of ports of which one gives no frame, beside one port that sends back what it passes: the same load.

A worker that polls an idle port as well must not lose more than that poll. The ports that swallow what is sent are of
different drivers (the idle one is net_null, which alone gives nothing), so what that changes in testpmd is taken off.
"""

import os
import statistics

from added_cycles import run_one
from port_rows import ROWS, make_row
from rig import core_clock, say

SIDES = {"alone": ROWS["src_1m"], "pair": ROWS["idle_port"]}
BASE = "testpmd-io"


def measure_idle_port(build, rounds, seconds=2):
    """Rounds of {alone, pair} by testpmd and weir, in turning order; "ratio": cycles a packet, pair over alone."""
    made = {side: make_row(build, row) for side, row in SIDES.items()}
    order = [(side, who) for side in SIDES for who in (BASE, "weir")]
    runs = []
    for number in range(rounds):
        turn = number % len(order)
        run = {"ghz": core_clock(build)["ghz"], "load": os.getloadavg()[0]}
        for side, who in order[turn:] + order[:turn]:
            run[f"{side} {who}"] = run_one(build, SIDES[side], made[side], who, seconds)
        run["port_ns"] = run[f"pair {BASE}"]["ns"] - run[f"alone {BASE}"]["ns"]
        run["ratio"] = (run["pair weir"]["ns"] - run["port_ns"]) / run["alone weir"]["ns"]
        say(f"idle port: round {number + 1}: ratio {run['ratio']:.3f}; {tell(run)}")
        runs.append(run)
    return {"runs": runs, "rows": {side: row.name for side, row in SIDES.items()}}


def tell(run):
    times = ", ".join(f"{side} {who} {run[f'{side} {who}']['ns']:.2f}" for side in SIDES for who in (BASE, "weir"))
    return f"ns a packet: {times}; {run['ghz']:.2f} GHz"


def medians(result):
    """For a NOTE."""
    def cycles(key):
        return statistics.median(run[key]["ns"] * run["ghz"] for run in result["runs"])

    port = statistics.median(run["port_ns"] * run["ghz"] for run in result["runs"])
    each = ", ".join(f"{side} {who} {cycles(f'{side} {who}'):.0f}" for side in SIDES for who in (BASE, "weir"))
    return (f"cycles a packet: {each}; the other port alone makes {port:.0f} (testpmd), taken off; load of the machine "
            f"{statistics.median(run['load'] for run in result['runs']):.1f}")
