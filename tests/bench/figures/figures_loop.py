"""Figures of the data path of both planes. docs/develop/figures.md says how each is measured."""

import os
import statistics

from added_cycles import CLIENT, make_row, run_one, weir_run
from bench_xdp import BASE, WEIR, measure_lookup
from figure import at_most, reported
from port_rows import ROWS
from rig import build_commit, core_clock, say

ROUNDS, RUNS = 5, 3
BEFORE = os.environ.get("WEIR_BEFORE", "22bc7bd0")  # the last commit before loop.h
# By row: the most that the cycles it adds may be, of those of the commit before; None: reported.
RATIOS = {"empty": None, "src_1m": 0.6, "srcdst_1m": 0.6, "flow_1m": 0.65, "vlan_1m": 0.65, "v6_1m": 0.55, "halfhit": None,
          "allhit": 0.65, "src_10m": 0.75}
PORT_ROUNDS, SECONDS = 7, 2
ENTRIES = 1_000_000
TAGS = (1, 2)


def xdp_vlan(build, _folder):
    """Misses of a million hosts, in turns of frames without tags, with one and with two."""
    base, net, rounds = [], {tags: [] for tags in (0, *TAGS)}, []
    for _ in range(ROUNDS):
        runs = {tags: measure_lookup(build, ENTRIES, (0,), RUNS, (WEIR,) if tags else (BASE, WEIR), tags)["rows"][0]["ns"]
                for tags in net}
        base += [run[BASE] for run in runs[0]]
        for tags in net:
            net[tags] += [run[WEIR] for run in runs[tags]]
        rounds.append(runs)
    ns = {tags: statistics.median(values) - statistics.median(base) for tags, values in net.items()}
    told = ", ".join(f"{tags} tags {value:.1f}" for tags, value in ns.items())
    value = max(ns[tags] for tags in TAGS) / ns[0]
    return [at_most("loop.xdp_vlan_ratio", value, 1.3, "ratio", f"medians of net ns a packet: {told}")], rounds


def added(run, base):
    return (run["ns"] - base["ns"]) * run["ghz"]


def ratio_of_row(name):
    """Measures a packet of the row beside testpmd, now and before, in turns."""
    def measure(build, _folder):
        before, other = build_commit(BEFORE, build, ("dataplane/dataplane", CLIENT))
        row = ROWS[name]
        made = make_row(build, row)
        base = "testpmd-rxonly" if row.sink else "testpmd-io"
        who = {base: lambda: run_one(build, row, made, base, SECONDS), "before": lambda: weir_run(other, made, row, SECONDS),
               "now": lambda: weir_run(build, made, row, SECONDS)}
        rounds = []
        for number in range(PORT_ROUNDS):
            names = list(who)[number % 3:] + list(who)[:number % 3]
            ghz = core_clock(build)["ghz"]
            rounds.append({name: dict(who[name](), ghz=ghz) for name in names})
            say(f"{name}: round {number + 1}: " + ", ".join(f"{who} {run['ns']:.2f} ns" for who, run in rounds[-1].items()))
        cycles = {when: statistics.median(added(run[when], run[base]) for run in rounds) for when in ("before", "now")}
        ns = {who: statistics.median(run[who]["ns"] for run in rounds) for who in who}
        note = (f"medians of {PORT_ROUNDS}: {cycles['now']:.0f} cycles added, {before} {cycles['before']:.0f}; a packet "
                + ", ".join(f"{who} {value:.1f} ns" for who, value in ns.items()))
        ratio = round(cycles["now"] / cycles["before"], 2)
        figure = f"loop.ratio_{name}"
        most = RATIOS[name]
        return [reported(figure, ratio, "of before", note) if most is None else at_most(figure, ratio, most, "of before", note)], rounds
    return measure


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    *(((f"loop.ratio_{name}",), ratio_of_row(name)) for name in RATIOS),
    (("loop.xdp_vlan_ratio",), xdp_vlan),
)
