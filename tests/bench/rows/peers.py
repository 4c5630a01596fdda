"""One table of all that holds a blocklist of a million hosts: on a port of DPDK, in XDP, and in the kernel's filters.

The rows are those of `scripts/bench dataplane` and `scripts/bench xdp`, measured in one run. The table is Markdown, for
docs/develop/benchmarks.md.
"""

import os
import statistics
import time

import xdp_lanes
from added_cycles import measure_row, middle
from bench_xdp import BASE, LANES, LOOKUP_PEERS, SETTLE_SECONDS, WEIR, measure_lanes, measure_load, measure_lookup, net_lanes, \
    net_lookups
from port_rows import Row
from rig import Skip, say

ENTRIES = 1_000_000
HITS_ON_VETH = 0.5
LANE_SECONDS = 0.4
# Rows of ports, and who is measured there. A peer that does not take a million hosts is in a row of fewer, beside weir.
PORT_ROWS = ((Row(), ("testpmd-macswap", "hash", "member_vbf", "member_ht", "fib")), (Row(entries=1_000), ("acl",)),
             (Row("v6", traffic="v6"), ("fib6",)), (Row("v6", 100_000, traffic="v6"), ("fib6",)))
IN_KERNEL = {"nft-prerouting": xdp_lanes.NftPrerouting, "nft-ingress": xdp_lanes.NftIngress, "ipset": xdp_lanes.Ipset}
NO_RELOAD = "no swap of the whole list, no counters by list"
WEIR_CANNOT = "tracks no connections; compiles a list before it enforces it"
CANNOT = {
    "weir": WEIR_CANNOT,
    "testpmd-io": "reads no frame",
    "testpmd-macswap": "has no list",
    "hash": f"no networks (rte_fib has them here), no flows; {NO_RELOAD}",
    "member_vbf": f"drops strangers (false positives), deletes no host, no networks, no flows; {NO_RELOAD}",
    "member_ht": f"drops strangers (false positives), no networks, no flows; {NO_RELOAD}",
    "fib": f"no fields beside an address, no flows; 1 KiB for the /24 of each host; {NO_RELOAD}",
    "fib6": f"no fields beside an address, no flows; up to 13 KiB for each host; {NO_RELOAD}",
    "acl": "takes minutes and gigabytes to build for more than some thousand random hosts; no changes without a new build",
    "xdp weir": WEIR_CANNOT,
    "xdp hash": f"no networks; {NO_RELOAD}",
    "xdp lpm": f"no ports, no flows; {NO_RELOAD}",
    "xdp bloom": f"needs the hash map behind it, deletes no host, no networks; {NO_RELOAD}",
    "nft-prerouting": "sees socket buffers only; counters by rule, not by entry",
    "nft-ingress": "sees socket buffers only; counters by rule, not by entry",
    "ipset": "sees socket buffers only; hosts or networks in a set, not both",
}
MEMINFO = ("SUnreclaim", "VmallocUsed", "Percpu")


def kernel_mib():
    """MiB of the whole kernel's own objects."""
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return sum(int(fields[name].split()[0]) for name in MEMINFO if name in fields) / 1024


def weighed(name, kind, mib):
    """The lane, which also tells by how much the kernel grew while it loaded its list."""
    class Weighed(kind):
        def timed(self, *arguments, **options):
            before = kernel_mib()
            super().timed(*arguments, **options)
            time.sleep(SETTLE_SECONDS)  # the kernel frees what only the transaction needed
            mib[name] = kernel_mib() - before
    return Weighed


class NftFlowtable(xdp_lanes.Lane):
    """Tells why there is none to measure: the kernel has no flowtables, or there is no list in one."""

    def set_up(self):
        xdp_lanes.need("nft")
        add = "add table inet bench; add flowtable inet bench known { hook ingress priority 0; devices = { r0 }; }"
        try:
            xdp_lanes.run_tool(self.inside("nft", add), "nft")
        except Skip:
            raise Skip("kernel: it makes no flowtable (CONFIG_NF_FLOW_TABLE)") from None
        raise Skip("a flowtable forwards flows that passed before; here each source is a new flow")


def measure_ports(build, rounds):
    """(results of rows, {peer: reason})"""
    results, missing = [], {}
    for row, beside in PORT_ROWS:
        try:
            result = measure_row(build, row, rounds, beside=beside, tables=())
        except Skip as reason:
            missing[row.name] = str(reason)
            say(f"peers: {row.name} skipped: {reason}")
            continue
        results.append(result)
        missing.update({f"{who} of {row.entries}": reason for who, reason in result["missing"].items()})
    return results, missing


def measure_kernel(build, folder, rounds):
    """({"lookup", "veth", "load", "mib"}, {peer: reason}); None: it cannot be measured here."""
    mib = {}
    kinds = {name: LANES[name] for name in (BASE, WEIR, "hash")}
    kinds.update({name: weighed(name, kind, mib) for name, kind in IN_KERNEL.items()})
    kinds["nft-flowtable"] = NftFlowtable
    try:
        lookup = measure_lookup(build, ENTRIES, (0,), rounds)
        veth, = measure_lanes(build, folder, ENTRIES, (HITS_ON_VETH,), rounds, LANE_SECONDS, kinds)
        load = measure_load(build, folder, ENTRIES, 1)
    except Skip as reason:
        return None, {"xdp, nft, ipset": str(reason)}
    return {"lookup": lookup, "veth": veth, "load": load["runs"][0], "mib": mib}, veth["missing"]


def measure_peers(build, folder, rounds):
    ports, missing = measure_ports(build, rounds)
    kernel, missing_there = measure_kernel(build, folder, rounds)
    found = {"ports": ports, "kernel": kernel, "missing": missing | missing_there}
    found["table"] = table(found)
    say(found["table"])
    return found


# Functions that read results.

def cell(value, digits=1):
    return "-" if value is None else f"{value:,.{digits}f}"


def line(name, hosts, ns, ghz, mib, load_s, cannot):
    return (f"| {name} | {hosts:,} | {cell(ns)} | {cell(ns * ghz, 0)} | {cell(mib)} | {cell(load_s, 2)} | {cannot or '-'} |")


def port_lines(result):
    """testpmd: the whole packet; the others: the cycles that they add to it."""
    base, contents = result["base"], result["contents"]
    kind = ", IPv6" if result["fields"] == "v6" else ""
    for who in result["runs"][0]:
        if not isinstance(result["runs"][0][who], dict) or middle(result, who, "ns") is None:
            continue
        ghz = middle(result, "ghz")
        if who == base:
            yield line(f"`{who}`{kind}, the whole packet", 0, middle(result, who, "ns"), ghz, None, None, CANNOT[who])
            continue
        ns = statistics.median(run[who]["ns"] - run[base]["ns"] for run in result["runs"])
        if who == "weir":
            mib, load_s = contents["bytes"] / (1 << 20), contents["compile_s"]
        else:
            mib, load_s = middle(result, who, "mib"), middle(result, who, "build_s")
        hosts = 0 if who.startswith("testpmd") else result["entries"]
        yield line(f"`{who}`{kind}", hosts, ns, ghz, mib, load_s, CANNOT[who])


def kernel_lines(kernel):
    lookup, veth = kernel["lookup"], kernel["veth"]
    load = {**kernel["load"], WEIR: kernel["load"]["weir_compile"] + kernel["load"]["weir"]}
    row, ghz = lookup["rows"][0], lookup["ghz"]
    mib = lookup["list_mib"] | {WEIR: lookup["weir_bytes"] / (1 << 20)}
    for peer in LOOKUP_PEERS[1:]:
        load_s = load.get(f"{peer}_batch", load.get(peer))
        if peer == "bloom":
            load_s += load["hash_batch"]
        yield line(f"`{peer}` in XDP", ENTRIES, statistics.median(net_lookups(row, peer)), ghz, mib[peer], load_s, CANNOT["xdp " + peer])
    for peer in (WEIR, "hash", *IN_KERNEL):
        if net_lanes(veth, peer):
            name = f"`{peer}` on veth" if peer in (WEIR, "hash") else f"`{peer}`"
            yield line(name, ENTRIES, statistics.median(net_lanes(veth, peer)), ghz, mib.get(peer, kernel["mib"].get(peer)),
                       load.get(f"{peer}_batch", load.get(peer)), CANNOT.get(peer) if peer in IN_KERNEL else CANNOT["xdp " + peer])


def table(found):
    """Markdown. ns and cycles are net of the base: testpmd io on a port, parse and pass or parse and drop in XDP and on veth."""
    lines = ["| peer | hosts | ns a packet | cycles | MiB | load, s | cannot |", "|---|---|---|---|---|---|---|"]
    for result in found["ports"]:
        lines += port_lines(result)
    if found["kernel"]:
        lines += kernel_lines(found["kernel"])
    return "\n".join(lines + ["", *(f"- `{name}` is left out: {reason}" for name, reason in found["missing"].items())])
