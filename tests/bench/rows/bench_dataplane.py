"""The data plane along every axis of policy and traffic, beside testpmd and minimal loops with DPDK's tables; a table
and plots. docs/develop/benchmarks.md tells how to read them.

Run as a program it only draws:  bench_dataplane.py DATAPLANE.json FOLDER
"""

import json
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../rig"))
import rooms  # noqa: E402,F401
from added_cycles import measure_row, middle
from port_rows import ROWS, matrix
from rig import Skip, plot_anyhow, say

BESIDE = ("testpmd-macswap",)
# Published by FD.io: CSIT 19.04, one core (Skylake), 64 B; 10,000 flows with one ACL. Mpps, cycles a packet.
# https://github.com/FDio/vpp/blob/master/docs/usecases/acls.rst
VPP_PUBLISHED = {"VPP, plain IPv4": (18.26, 136), "VPP, source in a FIB (COP)": (15.12, 165),
                 "VPP, stateless ACL": (9.13, 273), "VPP, stateful ACL": (11.06, 226)}


def measure_dataplane(build, folder, rounds, names, quick):
    """Rows of the matrix, or those of ROWS that are named."""
    rows = [ROWS[name] for name in names] if names else matrix(quick)
    results, skipped = [], {}
    for row in rows:
        try:
            results.append(measure_row(build, row, rounds, beside=() if names else BESIDE))
        except Skip as reason:
            skipped[row.name] = str(reason)
            say(f"bench: {row.name} skipped: {reason}")
    if not results:
        raise Skip("; ".join(skipped.values()))
    found = {"rows": results, "skipped": skipped, "vpp_published": VPP_PUBLISHED}
    say(table(found))
    if not names:
        plot_anyhow(os.path.abspath(__file__), found, "dataplane", os.path.join(build, "bench"), folder)
    return found


def sides(result):
    return [who for who in result["runs"][0] if isinstance(result["runs"][0][who], dict)]


def table(found):
    """Medians: cycles a packet of everybody; of weir also what it adds."""
    lines = ["row: cycles a packet (Mpps); median of the rounds"]
    for result in found["rows"]:
        ghz = middle(result, "ghz")
        parts = []
        for who in sides(result):
            ns = middle(result, who, "ns")
            if ns is not None:
                parts.append(f"{who} {ns * ghz:.0f} ({1e3 / ns:.1f})")
        lines.append(f"  {result['row']}: added {middle(result, 'added_cycles'):.1f}; " + ", ".join(parts))
        lines += [f"    {who} is left out: {reason}" for who, reason in result["missing"].items()]
    lines += [f"  {row} skipped: {reason}" for row, reason in found["skipped"].items()]
    lines += [f"  {name}, published, another machine: {cycles} ({mpps})"
              for name, (mpps, cycles) in found["vpp_published"].items()]
    return "\n".join(lines)


def plot(found, folder):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    def cycles(result, who):
        ns = middle(result, who, "ns")
        return None if ns is None else ns * middle(result, "ghz")

    def pick(**wanted):
        usual = {"fields": "src", "entries": 1_000_000, "hits": 0.01, "traffic": "64", "workers": 1, "sink": False,
                 **wanted}
        return [result for result in found["rows"]
                if all(result[key] == value for key, value in usual.items() if value is not ...)]

    def draw(name, title, x_label, lines, log_x=False):
        figure, axes = pyplot.subplots(figsize=(8, 5))
        for label, points in lines:
            points = sorted((x, y) for x, y in points if y is not None)
            if points:
                axes.plot(*zip(*points), "o-" if label.startswith("weir") else "x:", label=label)
        axes.set(title=title, xlabel=x_label, ylabel="core cycles per packet, one worker", ylim=(0, None))
        if log_x:
            axes.set_xscale("symlog", linthresh=1_000)  # none is among them
        axes.grid(True, which="both", alpha=0.3)
        axes.legend(fontsize="small")
        path = os.path.join(folder, name)
        figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
        pyplot.close(figure)
        say(f"bench: {path}")

    def lines_by(key, scale=1, **wanted):
        lines = [(f"weir, {fields}", [(result[key] * scale, cycles(result, "weir"))
                                      for result in pick(fields=fields, **{key: ...}, **wanted)])
                 for fields in ("src", "src+dst", "src+dst+flow")]
        others = sorted({who for result in pick(**{key: ...}, **wanted) for who in sides(result)} - {"weir"})
        return lines + [(who, [(result[key] * scale, cycles(result, who)) for result in pick(**{key: ...}, **wanted)
                               if who in result["runs"][0]]) for who in others]

    draw("dataplane-entries.png", "64 B, 1 % hits", "entries of each kind", lines_by("entries"), log_x=True)
    draw("dataplane-hits.png", "64 B, 1M entries of each kind", "hits, %", lines_by("hits", 100))
    stages = [result for result in pick(fields=...) if result["runs"][0]["weir"]["stage_ns"]]
    if stages:
        figure, axes = pyplot.subplots(figsize=(8, 4))
        for number, result in enumerate(stages):
            left = 0
            for color, name in enumerate(result["runs"][0]["weir"]["stage_ns"]):
                width = middle(result, "weir", "stage_ns", name) * middle(result, "ghz")
                axes.barh(number, width, left=left, color=f"C{color}", label=name if number == 0 else None)
                left += width
        axes.set(yticks=range(len(stages)), yticklabels=[result["row"] for result in stages],
                 xlabel="core cycles per packet", title="where they go (sampled passes; the time stamps are in them)")
        axes.legend(fontsize="small")
        figure.savefig(os.path.join(folder, "dataplane-stages.png"), dpi=110, bbox_inches="tight",
                       metadata={"Software": None})
        pyplot.close(figure)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as results:
        plot(json.load(results), sys.argv[2])
