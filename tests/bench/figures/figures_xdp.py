"""Figures of the policy in XDP beside the kernel's maps, sets and filters. docs/develop/figures.md says how each is measured."""

import json
import os
import statistics
import subprocess
import sys

from agreement import agree_on_captures, agree_on_random
from bench_xdp import BASE, LANES, LOOKUP_PEERS, WEIR, measure_lanes, measure_load, measure_lookup, net_lanes, \
    net_lookups, ratios
from figure import Figure, at_most
from rig import PROGRAMS, build_release, say, spread
from session import ROOT, SessionError, tail

ROUNDS = 5
VETH_ROUNDS, VETH_SECONDS = 15, 0.4
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
    row, = measure_lanes(build, folder, ENTRIES, (0.5,), VETH_ROUNDS, VETH_SECONDS, peers)
    return [of_lanes("xdp.veth_vs_hash", row, ("hash",), 0.5), of_lanes("xdp.veth_vs_nft", row, NFT, 0.2),
            of_lanes("xdp.veth_vs_ipset", row, ("ipset",), 0.15)], row


def load(build, folder):
    result = measure_load(build, folder, ENTRIES, ROUNDS)
    runs = result["runs"]
    values = [run[WEIR] for run in runs]
    others = ", ".join(f"{peer} {statistics.median(run[peer] for run in runs if peer in run):.3f}"
                       for peer in runs[0] if peer != WEIR)
    return [at_most("xdp.load_1m_s", statistics.median(values), 0.5, "s", f"{spread(values)}; {others}")], result


AGREED_POLICIES, AGREED_PACKETS = 200, 20_000
SWAP_FRAMES, KILLS = 1e8, 200


def send_expect(build, folder):
    """Every row through the XDP program."""
    path = os.path.join(folder, "send-expect-xdp.json")
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/rig/world/send_expect.py"), "--plane", "xdp", "--json",
                           path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
                          env=dict(os.environ, WEIR_BUILD=build))
    if not os.path.exists(path):
        raise SessionError(f"send_expect.py ended with {done.returncode}: {tail(done.stdout, 5)}")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def disagreements(build, folder):
    """All that issue "every key, every frame" compares, through both planes: captures, random policies, rows."""
    build_release(build, (*PROGRAMS, "tests/agreement/agreement"))
    captures = agree_on_captures(build, folder, xdp=True)
    by_chance = agree_on_random(build, AGREED_POLICIES, AGREED_PACKETS, xdp=True)
    rows = send_expect(build, folder)
    note = (f"captures: {captures['captures']}, {captures['policies']} policies, {captures['by_xdp']} frames by XDP, "
            f"{captures['disagreements']} disagree; random: {by_chance['policies']} policies, {by_chance['by_xdp']} frames, "
            f"{by_chance['disagreements']} disagree; send and expect: {rows['rows']} rows, {rows['frames']} frames, "
            f"{rows['comparisons']} comparisons, {rows['failures']} failures")
    value = captures["disagreements"] + by_chance["disagreements"] + rows["failures"]
    return [at_most("xdp.disagreements", value, 0, "frames", note)], {"captures": captures, "random": by_chance,
                                                                      "rows": rows}


def judged_traffic(build, what, *options):
    build_release(build, (*PROGRAMS, "tests/xdp/xdp_traffic"))
    say(f"xdp: {what} under traffic whose right verdicts are known")
    done = subprocess.run(["unshare", "--net", sys.executable, os.path.join(ROOT, "tests/rig/xdp/xdp_swaps.py"), what,
                           "--build", build, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=3600)
    if not done.stdout.startswith("{"):
        raise SessionError(f"xdp_swaps.py {what} ended with {done.returncode}: {tail(done.stderr, 5)}")
    return json.loads(done.stdout)


def traffic_note(run):
    return (f"{run['frames']} frames in {run['seconds']:.0f} s, {run['wrongly_dropped']} wrongly dropped, "
            f"{run['wrongly_passed']} wrongly passed, {run['lost']} lost before the program")


def swap_wrong(build, _folder):
    run = judged_traffic(build, "swap", "--packets", str(SWAP_FRAMES))
    return [at_most("xdp.swap_wrong", run["wrong"], 0, "frames", f"{run['swaps']} swaps; {traffic_note(run)}")], run


def kill_gaps(build, _folder):
    run = judged_traffic(build, "kill", "--kills", str(KILLS))
    note = (f"controld killed {run['kills']} times at random moments of its first {run['killed_within_s']:.2f} s, "
            f"{run['reloads_acknowledged']} reloads acknowledged between; {traffic_note(run)}")
    return [at_most("xdp.kill_gaps", run["wrong"], 0, "frames", note)], run


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("xdp.disagreements",), disagreements),
    (("xdp.miss_vs_hash", "xdp.miss_vs_bloom", "xdp.hit_vs_hash"), lookup),
    (("xdp.veth_vs_hash", "xdp.veth_vs_nft", "xdp.veth_vs_ipset"), veth),
    (("xdp.load_1m_s",), load),
    (("xdp.swap_wrong",), swap_wrong),
    (("xdp.kill_gaps",), kill_gaps),
)
