"""Figures of the policy in XDP beside the kernel's maps, sets and filters. docs/figures.md says how each is measured."""

import statistics

from bench_xdp import BASE, LANES, LOOKUP_PEERS, WEIR, measure_lanes, measure_load, measure_lookup, net_lanes, \
    net_lookups, ratios
from figure import Figure, at_most
from rig import spread

ROUNDS = 5
ENTRIES = 1_000_000
NFT = ("nft-prerouting", "nft-ingress")


def nets(peers, values_of):
    """Medians of net ns a packet, for a NOTE."""
    return ", ".join(f"{peer} {statistics.median(values_of(peer)):.1f}" for peer in peers if values_of(peer))


def of_lookup(name, row, peer, limit, note):
    values = ratios(net_lookups(row, WEIR), net_lookups(row, peer))
    base = statistics.median(ns[BASE] for ns in row["ns"])
    told = nets(LOOKUP_PEERS[1:], lambda other: net_lookups(row, other))
    return at_most(name, statistics.median(values), limit, "ratio",
                   f"{spread(values)}; net ns a packet: {told}; parse and pass {base:.1f}{note}")


def lookup(build, _folder):
    result = measure_lookup(build, ENTRIES, (0, 1), ROUNDS)
    misses, hits = result["rows"]
    shape = result["weir_shapes"][0]
    note = (f"; false positives: weir {shape['expected_fpr']:.2%}, Bloom map {result['bloom_fpr']:.2%}; "
            f"{result['ghz']:.2f} GHz")
    return [of_lookup("xdp.miss_vs_hash", misses, "hash", 0.25, note),
            of_lookup("xdp.miss_vs_bloom", misses, "bloom", 0.6, note),
            of_lookup("xdp.hit_vs_hash", hits, "hash", 0.6, note)], result


def of_lanes(name, row, peers, limit):
    """Against the best of the peers."""
    there = [peer for peer in peers if net_lanes(row, peer)]
    if not there:
        reason = "; ".join(f"{peer}: {row['missing'].get(peer, 'not measured')}" for peer in peers)
        return Figure(name, status="skipped", note=reason, missing_here=True)
    best = min(there, key=lambda peer: statistics.median(net_lanes(row, peer)))
    values = ratios(net_lanes(row, WEIR), net_lanes(row, best))
    base = statistics.median(run[BASE]["ns"] for run in row["runs"])
    mpps = ", ".join(f"{peer} {statistics.median(run[peer]['mpps'] for run in row['runs']):.2f}"
                     for peer in (BASE, WEIR, *there))
    return at_most(name, statistics.median(values), limit, "ratio",
                   f"{spread(values)}; beside {best}; net ns a packet: {nets((WEIR, *there), lambda p: net_lanes(row, p))}; "
                   f"parse and drop {base:.1f}; Mpps: {mpps}")


def veth(build, folder):
    peers = {name: lane for name, lane in LANES.items() if name in (BASE, WEIR, "hash", "ipset", *NFT)}
    row, = measure_lanes(build, folder, ENTRIES, (0.5,), ROUNDS, peers=peers)
    return [of_lanes("xdp.veth_vs_hash", row, ("hash",), 0.5), of_lanes("xdp.veth_vs_nft", row, NFT, 0.2),
            of_lanes("xdp.veth_vs_ipset", row, ("ipset",), 0.15)], row


def load(build, folder):
    result = measure_load(build, folder, ENTRIES, ROUNDS)
    runs = result["runs"]
    values = [run[WEIR] for run in runs]
    others = ", ".join(f"{peer} {statistics.median(run[peer] for run in runs if peer in run):.3f}"
                       for peer in runs[0] if peer != WEIR)
    return [at_most("xdp.load_1m_s", statistics.median(values), 0.5, "s", f"{spread(values)}; {others}")], result


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("xdp.miss_vs_hash", "xdp.miss_vs_bloom", "xdp.hit_vs_hash"), lookup),
    (("xdp.veth_vs_hash", "xdp.veth_vs_nft", "xdp.veth_vs_ipset"), veth),
    (("xdp.load_1m_s",), load),
)
