"""Lists of hosts in XDP: weir's program beside the kernel's maps, sets and filters. docs/develop/benchmarks.md tells how.

Run as a program it only draws:  bench_xdp.py XDP.json FOLDER
"""

import json
import os
import statistics
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../rig"))
import rooms  # noqa: E402,F401
import xdp_lanes
from figures_filter import available_mib
from rig import WORKER_NICE, Skip, core_clock, placed, plot_anyhow, processors, say
from session import SessionError, tail
from xdp_lanes import PROGRAM, Lane, need_root

BASE, WEIR = "parse", "weir"
LOOKUP_PEERS = (BASE, "hash", "lpm", "bloom", WEIR)
LOOKUP_PEERS6 = {"parse6": BASE, "hash6": "hash", WEIR: WEIR}  # name of the program: whose part it plays
ENTRIES = (1_000, 100_000, 1_000_000, 10_000_000)
SHARES = (0, 0.01, 0.5, 1)
LANES = {BASE: xdp_lanes.Parse, "hash": xdp_lanes.Hash, "lpm": xdp_lanes.Lpm, "bloom": xdp_lanes.Bloom,
         WEIR: xdp_lanes.Weir, "nft-prerouting": xdp_lanes.NftPrerouting, "nft-ingress": xdp_lanes.NftIngress,
         "ipset": xdp_lanes.Ipset}
FILTERS = {"xdp-filter": xdp_lanes.XdpFilter, "xdp-filter-deny": xdp_lanes.XdpFilterDeny}
# What everybody's list takes together, MiB; the sets of nft and ipset of 10M do not fit a transaction everywhere.
NEEDS_MIB = {10_000_000: 6_000}
LANE_SECONDS = 1
SETTLE_SECONDS = 2  # the kernel frees what former lists held
SHARE_TOLERANCE = 0.005  # a lane stops in the middle of the sources


def on_worker(build, *arguments, timeout=1800):
    """What xdp_bench prints, run on the processor of what is measured."""
    need_root()
    command = placed([os.path.join(build, PROGRAM), *map(str, arguments)], [processors()[0]], WORKER_NICE)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
    if done.returncode != 0:
        raise SessionError(f"{PROGRAM} {arguments[0]}: {tail(done.stderr, 3)}")
    return json.loads(done.stdout)


def need_memory(entries):
    needs = NEEDS_MIB.get(entries, 0)
    if available_mib() < needs:
        raise Skip(f"memory: lists of {entries} hosts need {needs} MiB of memory, {available_mib()} are available")


def measure_lookup(build, entries, shares, rounds, peers=LOOKUP_PEERS, tags=0):
    """{"entries", "rows": [{"hits", "ns": [{peer: ns a packet}, one a round]}], ...}"""
    need_memory(entries)
    say(f"xdp: lookups in {entries} hosts")
    found = on_worker(build, "lookup", "--entries", entries, "--rounds", rounds, "--peers", ",".join(peers), "--hits",
                      ",".join(map(str, shares)), "--tags", tags)
    return with_machine(build, found)


def measure_lookup6(build, entries, shares, rounds):
    """As measure_lookup, of hosts of IPv6."""
    say(f"xdp: lookups in {entries} hosts of IPv6")
    found = on_worker(build, "lookup", "--family", 6, "--entries", entries, "--rounds", rounds, "--peers",
                      ",".join(LOOKUP_PEERS6), "--hits", ",".join(map(str, shares)))
    for row in found["rows"]:
        row["ns"] = [{LOOKUP_PEERS6[name]: ns for name, ns in run.items()} for run in row["ns"]]
    return with_machine(build, found)


def with_machine(build, found):
    found["ghz"] = core_clock(build)["ghz"]
    found["machine"] = {"kernel": os.uname().release, "mitigations": mitigations()}
    return found


def mitigations():
    """Of the kernel, that make calls and returns slow, those of BPF programs among them."""
    found = {}
    for name in ("spectre_v2", "retbleed", "spec_rstack_overflow"):
        try:
            with open(f"/sys/devices/system/cpu/vulnerabilities/{name}", encoding="ascii") as file:
                found[name] = file.read().strip()
        except OSError:
            pass  # an older kernel
    return found


def open_lanes(build, folder, entries, peers, missing):
    lanes = {}
    try:
        for name, kind in peers.items():
            try:
                lanes[name] = kind(build, folder, entries)
            except (Skip, SessionError) as reason:
                if name in (BASE, WEIR):
                    raise
                missing[name] = str(reason)
                say(f"xdp: {name} is left out at {entries}: {reason}")
    except BaseException:
        close_lanes(lanes)
        raise
    return lanes


def close_lanes(lanes):
    for lane in lanes.values():
        lane.close()


def measure_lanes(build, folder, entries, shares, rounds, seconds=LANE_SECONDS, peers=None):
    """[{"entries", "hits", "runs": [{peer: as Lane.run()}, one a round], "missing", "load_s"}], one a share."""
    need_root()
    need_memory(entries)
    say(f"xdp: veth, {entries} hosts")
    missing, rows = {}, []
    lanes = open_lanes(build, folder, entries, peers or LANES, missing)
    try:
        time.sleep(SETTLE_SECONDS)
        for lane in lanes.values():
            lane.run(shares[0], seconds / 4, 0)  # not counted: the first ones still pay for what loading left to do
        for hits in shares:
            runs = []
            for number in range(rounds):
                run, names = {}, list(lanes)
                turn = number % len(names)
                for name in names[turn:] + names[:turn]:
                    if name in FILTERS and hits != (1 if name == "xdp-filter" else 0):
                        continue
                    run[name] = lanes[name].run(hits, seconds, number)
                    if name != BASE and abs(run[name]["hits"] - hits) > SHARE_TOLERANCE:
                        raise SessionError(f"{name} found {run[name]['hits']:.3%} of {hits:.0%} members")
                runs.append(run)
            rows.append({"entries": entries, "hits": hits, "runs": runs, "missing": missing,
                         "load_s": {name: lane.load_s for name, lane in lanes.items() if lane.load_s is not None}})
    finally:
        close_lanes(lanes)
    return rows


def measure_load(build, folder, entries, rounds):
    """[{peer: seconds}], one a round: until the whole list decides."""
    need_memory(entries)
    runs = []
    for number in range(rounds):
        say(f"xdp: loading {entries} hosts, {number + 1} of {rounds}")
        run = on_worker(build, "load", "--entries", entries)
        for name in ("nft-prerouting", "nft-ingress", "ipset"):
            try:
                with LANES[name](build, folder, entries) as lane:
                    run[name] = lane.load_s
            except Skip as reason:
                say(f"xdp: {name} is left out: {reason}")
        runs.append(run)
    return {"entries": entries, "runs": runs}


# What follows reads results.

def net_lookups(row, peer):
    """Of each round: ns a packet, without what its base takes. Empty: it was not measured."""
    return [ns[peer] - ns[BASE] for ns in row["ns"] if peer in ns]


def net_lanes(row, peer):
    return [run[peer]["ns"] - run[BASE]["ns"] for run in row["runs"] if peer in run]


def ratios(ours, theirs):
    return [mine / its for mine, its in zip(ours, theirs)]


def measure_xdp(build, folder, rounds, quick):
    need_root()
    found = {"lookups": [], "lookups6": [], "lanes": [], "load": None, "skipped": {}}

    def attempt(what, function):
        try:
            return function()
        except Skip as reason:
            found["skipped"][what] = str(reason)
            say(f"xdp: {what} skipped: {reason}")
            return None

    sizes = (1_000, 1_000_000) if quick else ENTRIES
    for entries in sizes:
        row = attempt(f"lookup-{entries}", lambda: measure_lookup(build, entries, SHARES, rounds))
        found["lookups"] += [row] if row else []
    for entries in sizes:
        row = attempt(f"lookup6-{entries}", lambda: measure_lookup6(build, entries, SHARES, rounds))
        found["lookups6"] += [row] if row else []
    for entries in sizes:
        shares = SHARES if entries == 1_000_000 else (0.5,)
        found["lanes"] += attempt(f"veth-{entries}",
                                  lambda: measure_lanes(build, folder, entries, shares, rounds)) or []
    found["lanes"] += attempt("veth-10000", lambda: measure_lanes(
        build, folder, xdp_lanes.XDP_FILTER_MOST, (0, 1), rounds, peers=LANES | FILTERS)) or []
    found["load"] = attempt("load", lambda: measure_load(build, folder, 1_000_000, rounds))
    say(table(found))
    plot_anyhow(os.path.abspath(__file__), found, "xdp", os.path.join(build, "bench"), folder)
    return found


def table(found):
    lines = ["without a network: net ns a packet (the base), median of the rounds"]
    named = [(result, "hosts") for result in found["lookups"]] + [(result, "hosts of IPv6") for result in found["lookups6"]]
    for result, what in named:
        for row in result["rows"]:
            base = statistics.median(ns[BASE] for ns in row["ns"])
            parts = [f"{peer} {statistics.median(net_lookups(row, peer)):.1f}" for peer in LOOKUP_PEERS[1:]
                     if net_lookups(row, peer)]
            lines.append(f"  {result['entries']} {what}, {row['hits']:.0%} hits: {', '.join(parts)} ({base:.1f})")
    lines.append("veth: net ns a packet (Mpps); median of the rounds")
    for row in found["lanes"]:
        parts = [f"{peer} {statistics.median(net_lanes(row, peer)):.0f} "
                 f"({statistics.median(run[peer]['mpps'] for run in row['runs']):.2f})" for peer in row["runs"][0]]
        lines.append(f"  {row['entries']}, {row['hits']:.0%} hits: {', '.join(parts)}")
        lines += [f"    {peer} is left out: {reason}" for peer, reason in row["missing"].items()]
    if found["load"]:
        runs = found["load"]["runs"]
        parts = [f"{peer} {statistics.median(run[peer] for run in runs if peer in run):.3f}" for peer in runs[0]]
        lines.append(f"loading {found['load']['entries']} hosts, seconds: {', '.join(parts)}")
    lines += [f"  {what} skipped: {reason}" for what, reason in found["skipped"].items()]
    return "\n".join(lines)


def plot(found, folder):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    def save(figure, name):
        path = os.path.join(folder, name)
        figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
        pyplot.close(figure)
        say(f"bench: {path}")

    if found["lookups"]:
        shares = [row["hits"] for row in found["lookups"][0]["rows"]]
        figure, all_axes = pyplot.subplots(1, len(shares), figsize=(4 * len(shares), 4), sharey=True)
        for number, hits in enumerate(shares):
            axes = all_axes[number]
            for peer in LOOKUP_PEERS[1:]:
                points = [(result["entries"], statistics.median(net_lookups(result["rows"][number], peer)))
                          for result in found["lookups"] if net_lookups(result["rows"][number], peer)]
                if points:
                    axes.plot(*zip(*points), "o-" if peer == WEIR else "x:", label=peer)
            axes.set(title=f"{hits:.0%} hits", xlabel="hosts", xscale="log", yscale="log")
            axes.grid(True, which="both", alpha=0.3)
        all_axes[0].set_ylabel("ns a packet, parsing not counted")
        all_axes[0].legend(fontsize="small")
        save(figure, "xdp-lookup.png")
    for hits, name in ((0.5, "xdp-veth.png"),):
        rows = [row for row in found["lanes"] if row["hits"] == hits]
        if not rows:
            continue
        figure, axes = pyplot.subplots(figsize=(8, 4))
        peers = [peer for peer in rows[0]["runs"][0] if peer != BASE]
        for peer in peers:
            points = [(row["entries"], statistics.median(net_lanes(row, peer))) for row in rows if net_lanes(row, peer)]
            axes.plot(*zip(*points), "o-" if peer == WEIR else "x:", label=peer)
        axes.set(title=f"on veth, {hits:.0%} hits", xlabel="hosts", ylabel="ns a packet more than parse and drop",
                 xscale="log", yscale="log")
        axes.grid(True, which="both", alpha=0.3)
        axes.legend(fontsize="small")
        save(figure, name)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as results:
        plot(json.load(results), sys.argv[2])
