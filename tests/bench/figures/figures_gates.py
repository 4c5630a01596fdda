"""Figures of the gates: what an innocent packet costs, and what all else costs beside it. docs/develop/figures.md says how
each is measured. Those of the kernel, of builds and of tables are other groups' measurements, with these targets."""

import statistics

import figures_filter
import idle_port
from added_cycles import measure_row, medians
from bench_xdp import BASE, LANES, WEIR, measure_lanes, measure_lookup, measure_lookup6
from figure import at_least, at_most
from figures_safe import in_a_process
from figures_xdp import ENTRIES, NFT, VETH_ROUNDS, VETH_SECONDS, of_lanes, of_lookup
from order import SHARE_OF_VETH, measure_order
from port_rows import ROWS
from rig import Skip, say, spread
from session import SessionError

ROUNDS = 5
ADDED = {"empty": 12, "src_1m": 33, "srcdst_1m": 45, "flow_1m": 60, "vlan_1m": 50, "v6_1m": 50, "allhit": 80}
RATIO_MIX, IDLE_PORT = 0.9, 1.05
MISS_VS_HASH, MISS_VS_BLOOM, MISS_V6_VS_HASH = 0.06, 0.45, 0.1
VETH_VS_HASH, VETH_VS_NFT, VETH_VS_IPSET = 0.35, 0.16, 0.14
BUILD_MKEYS_S, SNAPSHOT_MKEYS_S, ALLHIT_VS_RTE_HASH = 120, 45, 2.0
ORDER_FRAMES = 5_000_000


def added(name):
    def measure(build, _folder):
        result = measure_row(build, ROWS[name], ROUNDS)
        values = [run["added_cycles"] for run in result["runs"]]
        note = f"{spread(values, 1)}; {medians(result)}"
        return [at_most(f"gates.added_{name}", statistics.median(values), ADDED[name], "cycles", note)], result

    measure.__name__ = f"gates_added_{name}"
    return (f"gates.added_{name}",), measure


def ratio_mix(build, _folder):
    result = measure_row(build, ROWS["mix_combined"], ROUNDS)
    values = [run["ratio"] for run in result["runs"]]
    note = f"{spread(values)}; {medians(result)}"
    return [at_least("gates.ratio_mix", statistics.median(values), RATIO_MIX, "ratio", note)], result


def idle_port_ratio(build, _folder):
    result = idle_port.measure_idle_port(build, ROUNDS)
    values = [run["ratio"] for run in result["runs"]]
    note = f"{spread(values)}; {idle_port.medians(result)}"
    return [at_most("gates.idle_port_ratio", statistics.median(values), IDLE_PORT, "ratio", note)], result


def xdp_miss(build, _folder):
    result = measure_lookup(build, ENTRIES, (0,), ROUNDS)
    misses, = result["rows"]
    note = f"; {result['ghz']:.2f} GHz"
    return [of_lookup("gates.xdp_miss_vs_hash", misses, "hash", MISS_VS_HASH, note),
            of_lookup("gates.xdp_miss_vs_bloom", misses, "bloom", MISS_VS_BLOOM, note)], result


def xdp_miss_v6(build, _folder):
    result = measure_lookup6(build, ENTRIES, (0,), ROUNDS)
    misses, = result["rows"]
    return [of_lookup("gates.xdp_miss_v6_vs_hash", misses, "hash", MISS_V6_VS_HASH, f"; {result['ghz']:.2f} GHz")], result


def xdp_veth(build, folder):
    peers = {name: lane for name, lane in LANES.items() if name in (BASE, WEIR, "hash", "ipset", *NFT)}
    row, = measure_lanes(build, folder, ENTRIES, (0.5,), VETH_ROUNDS, VETH_SECONDS, peers)
    return [of_lanes("gates.xdp_veth_vs_hash", row, ("hash",), VETH_VS_HASH),
            of_lanes("gates.xdp_veth_vs_nft", row, NFT, VETH_VS_NFT),
            of_lanes("gates.xdp_veth_vs_ipset", row, ("ipset",), VETH_VS_IPSET)], row


def with_target(figure, name, limit):
    """Another group's figure, which is the better the larger it is, against a target of this one."""
    return at_least(name, figure.value, limit, figure.unit, figure.note)


def builds(build, folder):
    (of_filter, of_snapshot), result = figures_filter.builds(build, folder)
    return [with_target(of_filter, "gates.build_mkeys_s", BUILD_MKEYS_S),
            with_target(of_snapshot, "gates.snapshot_mkeys_s", SNAPSHOT_MKEYS_S)], result


def allhit_vs_rte_hash(build, folder):
    (of_allhit, _), result = figures_filter.allhit(build, folder)
    return [with_target(of_allhit, "gates.allhit_vs_rte_hash", ALLHIT_VS_RTE_HASH)], result


def order(build, _folder):
    say(f"gates: order of {ORDER_FRAMES} frames")
    found = [in_a_process(measure_order, build, "pipes", ORDER_FRAMES)]
    notes = []
    try:
        found.append(in_a_process(measure_order, build, "veth", round(ORDER_FRAMES * SHARE_OF_VETH)))
    except Skip as reason:
        notes.append(f"not on veth: {reason}")
    for one in found:
        if one["reloads"] == 0:
            raise SessionError(f"{one['way']}: no reload fell into the traffic")
        notes.append(f"{one['way']}: {one['frames']} frames of {one['flows']} flows, {one['reloads']} reloads, {one['faults'] or 'no fault'}")
    return [at_most("gates.order_violations", sum(one["violations"] for one in found), 0, "frames", "; ".join(notes))], found


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    *(added(name) for name in ADDED),
    (("gates.ratio_mix",), ratio_mix),
    (("gates.idle_port_ratio",), idle_port_ratio),
    (("gates.xdp_miss_vs_hash", "gates.xdp_miss_vs_bloom"), xdp_miss),
    (("gates.xdp_miss_v6_vs_hash",), xdp_miss_v6),
    (("gates.xdp_veth_vs_hash", "gates.xdp_veth_vs_nft", "gates.xdp_veth_vs_ipset"), xdp_veth),
    (("gates.build_mkeys_s", "gates.snapshot_mkeys_s"), builds),
    (("gates.allhit_vs_rte_hash",), allhit_vs_rte_hash),
    (("gates.order_violations",), order),
)
