"""Figures of the data path of both planes. docs/develop/figures.md says how each is measured."""

import statistics

from bench_xdp import BASE, WEIR, measure_lookup
from figure import at_most

ROUNDS, RUNS = 5, 3
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


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("loop.xdp_vlan_ratio",), xdp_vlan),
)
