"""Plots of every benchmark for docs/develop/plots, drawn from what scripts/bench found (build/bench/NAME.json), and the part
of docs/develop/benchmarks.md that shows them. The same results give the same files.

    docs_plots.py RESULTS_FOLDER
"""

import json
import os
import re
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FOLDER = os.path.join(ROOT, "docs/develop/plots")
PAGE = os.path.join(ROOT, "docs/develop/benchmarks.md")
BEGIN, END = "<!-- plots: scripts/bench --docs writes what follows -->", "<!-- end of plots -->"
MOST_BYTES = 60_000
# A colour on white, and the one that takes its place where the reader's screen is dark.
TEXT, GRID = "#24292f", "#8c959f"
DARK = {TEXT: "#e6edf3", GRID: "#6e7681", "#0969da": "#58a6ff", "#cf222e": "#ff7b72", "#9a6700": "#d29922", "#8250df": "#bc8cff",
        "#1a7f37": "#3fb950", "#bf3989": "#f778ba", "#57606a": "#9da7b3", "#bc4c00": "#ffa657"}
OURS, PEERS = "#0969da", ["#cf222e", "#9a6700", "#8250df", "#1a7f37", "#bf3989", "#57606a", "#bc4c00"]
STEPS = [OURS, *PEERS]


# --- what the results say of their machine ---

def machine():
    """Of the machine and the tree that are measured now; scripts/bench puts it into each result."""
    model = flags = ""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "model name" and not model:
                model = " ".join(value.split())
            if name.strip() == "flags" and not flags:
                flags = f" {value.strip()} "
    isa = next((name for flag, name in ((" avx512f ", "AVX-512"), (" avx2 ", "AVX2")) if flag in flags), "SSE4.2")
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty=+", "--exclude=*"], capture_output=True, text=True,
                            check=False).stdout.strip() or "no commit"
    return {"cpu": model or "unknown processor", "isa": isa, "processors": os.cpu_count(), "kernel": os.uname().release,
            "date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit}


def text_of(about):
    return (f"{about['cpu']}, {about['isa']}, {about['processors']} processors, Linux {about['kernel']}, {about['date']}, "
            f"commit {about['commit']}")


# --- drawing ---

class Drawing:
    """One plot: axes that look alike in all of them; save() writes the machine below."""

    def __init__(self, name, title, caption, x="", y="", size=(7.2, 4.2)):
        from matplotlib import pyplot
        self.name, self.title, self.caption = name, title, caption
        self.figure, self.axes = pyplot.subplots(figsize=size)
        self.axes.set(xlabel=x, ylabel=y)
        self.n_peers = self.n_ours = 0

    def line(self, label, points, is_ours):
        points = sorted((x, y) for x, y in points if y is not None)
        if not points:
            return
        colour = OURS if is_ours else PEERS[self.n_peers % len(PEERS)]
        marker = "os^Dv"[self.n_ours % 5] if is_ours else "x"
        self.axes.plot(*zip(*points), marker=marker, linestyle="-" if is_ours else "--", color=colour, label=label,
                       linewidth=2 if is_ours else 1.2, fillstyle="full" if self.n_ours == 0 else "none")
        self.n_peers += not is_ours
        self.n_ours += is_ours

    def bars(self, labels, values, texts, colours=None):
        for number, (value, text) in enumerate(zip(values, texts)):
            self.axes.barh(number, value, color=(colours or STEPS)[number % len(colours or STEPS)])
            self.axes.annotate(text, (value, number), (4, 0), textcoords="offset points", va="center", color=TEXT)
        self.axes.set(yticks=range(len(labels)), yticklabels=labels, xlim=(0, max(values) * 1.25 or 1))
        self.axes.invert_yaxis()

    def save(self, about):
        """Returns the name of the file and what the page says of it."""
        from matplotlib import pyplot
        self.axes.set_title(self.title, loc="left", color=TEXT, fontsize=11)
        self.axes.grid(True, which="major", alpha=0.5)
        self.axes.set_axisbelow(True)
        handles, _ = self.axes.get_legend_handles_labels()
        if handles:
            self.axes.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
        self.axes.annotate(text_of(about), (0, 0), (0, -38), "axes fraction", "offset points", va="top", fontsize=7, color=TEXT)
        path = os.path.join(FOLDER, self.name + ".svg")
        self.figure.savefig(path, metadata={"Date": None, "Creator": None}, transparent=True, bbox_inches="tight")
        pyplot.close(self.figure)
        for_dark_screens(path, self.title, self.caption)
        size = os.path.getsize(path)
        if size > MOST_BYTES:
            sys.exit(f"docs_plots: {path} has {size} bytes, more than {MOST_BYTES}")
        return self.name, self.title, self.caption


def for_dark_screens(path, title, caption):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    rules = "".join(f'[style*="{what}: {light}"]{{{what}:{dark} !important}}' for light, dark in DARK.items() for what in ("fill", "stroke"))
    head = (f"<title>{title}</title><desc>{caption}</desc><style>@media (prefers-color-scheme: dark){{{rules}}}</style>").replace("&", "&amp;")
    text = re.sub(r"(<svg [^>]*>)", lambda match: match.group(1) + head, text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def thousands(number):
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return f"{number:g}"


# --- one function a benchmark: result -> drawings ---

def of_filter(result):
    from bench_filter import LAYOUTS, OURS as LINES, PEERS as OTHERS, points
    net, limits = points(result["benchmarks"])
    sizes = sorted(limits)

    def by_size(drawing, names, hits=0):
        for name in names:
            drawing.line(name, [(n, net.get((name, n, hits))) for n in sizes], name not in OTHERS)
        drawing.line("gather limit", limits.items(), False)
        drawing.axes.set(xscale="log", yscale="log")
        return drawing

    yield by_size(Drawing("filter-sizes", "A lookup by the size of the set, no hits", "16-byte keys, of which none is in the set; "
                          "the gather limit is one random cache line a key.", "keys in the set", "ns a key, one core"), LINES + OTHERS)
    yield by_size(Drawing("filter-layouts", "Layouts of the filter, no hits", "The hash is not counted.", "keys in the set",
                          "ns a key, one core"), LAYOUTS)
    n = 1_000_000 if 1_000_000 in sizes else sizes[-1]
    drawing = Drawing("filter-hits", f"A lookup by the share of hits, {thousands(n)} keys", "16-byte keys.", "hits, %", "ns a key, one core")
    for name in LINES + OTHERS:
        drawing.line(name, [(hits, ns) for (what, keys, hits), ns in net.items() if (what, keys) == (name, n)], name not in OTHERS)
    drawing.axes.set_yscale("log")
    yield drawing


def of_dataplane(result):
    from added_cycles import middle
    from bench_dataplane import sides

    def cycles(row, who):
        ns = middle(row, who, "ns")
        return None if ns is None else ns * middle(row, "ghz")

    def rows(**wanted):
        usual = {"entries": 1_000_000, "hits": 0.01, "traffic": "64", "workers": 1, "sink": False, **wanted}
        return [row for row in result["rows"] if all(row[key] == value for key, value in usual.items() if value is not ...)]

    for name, key, scale, title, x in (("dataplane-entries", "entries", 1, "A packet by entries of each kind, 64 B, 1 % hits", "entries"),
                                       ("dataplane-hits", "hits", 100, "A packet by the share of hits, 64 B, 1M entries", "hits, %")):
        drawing = Drawing(name, title, "Cycles of the whole packet, port included; testpmd reads no packet.", x, "core cycles a packet, one worker")
        for fields in ("src", "src+dst", "src+dst+flow"):
            drawing.line(f"weir, {fields}", [(row[key] * scale, cycles(row, "weir")) for row in rows(fields=fields, **{key: ...})], True)
        for who in sorted({who for row in rows(fields="src", **{key: ...}) for who in sides(row)} - {"weir"}):
            drawing.line(who, [(row[key] * scale, cycles(row, who)) for row in rows(fields="src", **{key: ...}) if who in row["runs"][0]],
                         False)
        drawing.axes.set_ylim(0, None)
        if key == "entries":
            drawing.axes.set_xscale("symlog", linthresh=1_000)
        yield drawing
    added = [(row["row"], middle(row, "added_cycles")) for row in result["rows"]]
    drawing = Drawing("dataplane-added", "What weir adds to a packet, by row", "Cycles more than testpmd on the same port, in pairs of runs.",
                      "core cycles more than testpmd", size=(7.2, 1 + 0.28 * len(added)))
    drawing.bars([name for name, _ in added], [max(0, cost) for _, cost in added], [f"{cost:.0f}" for _, cost in added], [OURS])
    yield drawing


def of_xdp(result):
    from bench_xdp import BASE, LOOKUP_PEERS, WEIR, net_lanes, net_lookups
    for key, family in (("lookups", "IPv4"), ("lookups6", "IPv6")):
        if not result[key]:
            continue
        drawing = Drawing(f"xdp-{key}", f"A stranger in XDP, {family}", "Nanoseconds more than parsing, without a network; no hits.", "hosts",
                          "ns a packet more than parse")
        for peer in LOOKUP_PEERS[1:]:
            drawing.line(peer, [(found["entries"], statistics.median(net_lookups(found["rows"][0], peer))) for found in result[key]
                                if net_lookups(found["rows"][0], peer)], peer == WEIR)
        drawing.axes.set(xscale="log", yscale="log")
        yield drawing
    lanes = [row for row in result["lanes"] if row["hits"] == 0.5]
    if lanes:
        drawing = Drawing("xdp-veth", "A packet on veth, half of them hits", "Nanoseconds more than a program that parses and drops; "
                          "nftables and ipset see socket buffers.", "hosts", "ns a packet more than parse")
        for peer in lanes[0]["runs"][0]:
            if peer != BASE:
                drawing.line(peer, [(row["entries"], statistics.median(net_lanes(row, peer))) for row in lanes if net_lanes(row, peer)],
                             peer == WEIR)
        drawing.axes.set(xscale="log", yscale="log")
        yield drawing
    if result["load"]:
        runs = result["load"]["runs"]
        seconds = {peer: statistics.median(run[peer] for run in runs if peer in run) for peer in runs[0]}
        drawing = Drawing("xdp-load", f"Until a list of {thousands(result['load']['entries'])} hosts decides",
                          "From the finished list in memory, or in a file, to the first verdict; weir_compile comes before weir.", "seconds", size=(7.2, 3))
        drawing.bars(list(seconds), list(seconds.values()), [f"{value:.2f}" for value in seconds.values()])
        yield drawing


def of_stages(result):
    rows = {name: row for name, row in result.items() if isinstance(row, dict) and "stages" in row}
    drawing = Drawing("stages", "Instructions of a packet by stage of the worker", "Counted by callgrind with AVX2 kernels; the port is left out.",
                      "instructions a packet", size=(7.2, 1 + 0.32 * len(rows)))
    sums = {}
    for row in rows.values():
        for stage, own in row["stages"].items():
            if stage != "(port)":
                sums[stage] = sums.get(stage, 0) + own["instructions"]
    shown = sorted(sums, key=lambda stage: -sums[stage])[:len(STEPS) - 1]
    for number, row in enumerate(rows.values()):
        left = 0
        for colour, stage in enumerate([*shown, "others"]):
            width = sum(own["instructions"] for name, own in row["stages"].items()
                        if name == stage or (stage == "others" and name not in shown and name != "(port)"))
            drawing.axes.barh(number, width, left=left, color=STEPS[colour], label=stage if number == 0 else None)
            left += width
    drawing.axes.set(yticks=range(len(rows)), yticklabels=list(rows))
    drawing.axes.invert_yaxis()
    yield drawing


def of_uneven(result):
    values, labels = [], []
    for name in result["shares"]:
        for worker in (0, 1):
            labels.append(f"{name}, worker {worker}")
            values.append(statistics.median(run[name]["mpps"][worker] for run in result["runs"]))
    drawing = Drawing("uneven", "Two workers, when one flow is most of the traffic", "even: all flows alike; uneven: 80 % of the frames are one flow.",
                      "million packets a second", size=(7.2, 2.4))
    drawing.bars(labels, values, [f"{value:.1f}" for value in values], [OURS, OURS, PEERS[0], PEERS[0]])
    yield drawing


def of_ratio(result):
    cycles = {name: statistics.median(values) for name, values in result["cycles"].items()}
    labels = {"testpmd": "testpmd io", "empty": "weir, no lists", "combined": "weir, 669,714 entries"}
    drawing = Drawing("ratio", f"Real frames: {result['capture']}", "The same capture, port and processor.", "core cycles a packet", size=(7.2, 2.2))
    drawing.bars([labels.get(name, name) for name in cycles], list(cycles.values()), [f"{value:.0f}" for value in cycles.values()],
                 [PEERS[0], OURS, OURS])
    yield drawing


def of_swap(result):
    times = sorted(result["reload_ms"])
    drawing = Drawing("swap", f"{result['reloads']} reloads under traffic: lost {result['lost_total']}, mixed bursts {result['mixed_bursts']}",
                      "How long each reload took, from asking to the last acknowledgement, in the order of their times.", "reloads, %", "ms")
    step = max(1, len(times) // 100)
    drawing.line("reload", [(100 * (i + 1) / len(times), times[i]) for i in range(0, len(times), step)], True)
    drawing.axes.set_ylim(0, None)
    yield drawing


def of_jitter(result):
    names = {"p50_ns": "median", "p99_ns": "99 %", "p999_ns": "99.9 %"}
    kinds = [kind for kind in result["runs"][0] if kind != "ratio"]
    drawing = Drawing("jitter", f"A worker's pass, with {result['per_second']:g} publications a second",
                      "control: publications that are refused at the last step; swap: that are enforced.", "microseconds", size=(7.2, 2.8))
    labels, values = [], []
    for key, name in names.items():
        for kind in kinds:
            labels.append(f"{name}, {kind}")
            values.append(statistics.median(run[kind][key] for run in result["runs"]) / 1e3)
    drawing.bars(labels, values, [f"{value:.2f}" for value in values], [PEERS[0], OURS])
    yield drawing


def of_latency(result):
    names = {"p50_ns": "median", "p99_ns": "99 %", "p999_ns": "99.9 %"}
    ways = {"full_rate": "full rate", "1_mpps": "1M a second"}
    drawing = Drawing("latency", "How long a frame is inside the worker", "From asking the port for it to having handed it to the output; 1M hosts.",
                      "microseconds", size=(7.2, 2.8))
    labels = [f"{name}, {way}" for name in names.values() for way in ways.values()]
    values = [result[way][key] / 1e3 for key in names for way in ways]
    drawing.bars(labels, values, [f"{value:.1f}" for value in values], [OURS, PEERS[1]])
    yield drawing


def of_soak(result):
    drawing = Drawing("soak", f"{result['packets'] / 1e6:,.0f} million packets, {result['reloads']:,} reloads",
                      "Resources of the programs at a twentieth, half and all of the reloads.", "of the first sample, %", size=(7.2, 3))
    first, last = result["samples"][0], result["samples"][-1]
    units = {"fds": "open files", "kib": "KiB of memory"}
    numbers = [(f"{program}, {units.get(unit, unit)}", before, last[program][unit])
               for program, counts in first.items() for unit, before in counts.items()]
    drawing.bars([name for name, _, _ in numbers], [100 * after / max(1, before) for _, before, after in numbers],
                 [f"{after:,}, first {before:,}" for _, before, after in numbers], [OURS])
    yield drawing


DRAWN = {"filter": of_filter, "dataplane": of_dataplane, "stages": of_stages, "uneven": of_uneven, "ratio": of_ratio, "swap": of_swap,
         "jitter": of_jitter, "latency": of_latency, "soak": of_soak, "xdp": of_xdp}


def page_of(shown):
    """What benchmarks.md has between BEGIN and END. shown: [(benchmark, machine, [(name, title, caption)])]"""
    if not shown:
        return f"{BEGIN}\n\nNone is drawn yet.\n\n{END}"
    parts = [BEGIN, ""]
    for benchmark, about, plots in shown:
        parts += [f"### Plots of {benchmark}", "", f"`scripts/bench {benchmark} --docs` on {text_of(about)}.", ""]
        for name, title, caption in plots:
            parts += [f"![{title}](plots/{name}.svg)", "", f"*{title}.* {caption}", ""]
    return "\n".join([*parts, END])


def set_up():
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "weir", "svg.fonttype": "none", "axes.edgecolor": GRID, "axes.labelcolor": TEXT,
                                "xtick.color": TEXT, "ytick.color": TEXT, "text.color": TEXT, "grid.color": GRID, "legend.labelcolor": TEXT,
                                "grid.linewidth": 0.5, "axes.spines.top": False, "axes.spines.right": False})


def main():
    results = sys.argv[1]
    set_up()
    os.makedirs(FOLDER, exist_ok=True)
    shown, names = [], set()
    for benchmark, draw in DRAWN.items():
        path = os.path.join(results, benchmark + ".json")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        about = result.get("machine")
        if not isinstance(about, dict) or "cpu" not in about:
            print(f"docs_plots: {path} does not say where it was measured: measure it again", file=sys.stderr)
            continue
        plots = [drawing.save(about) for drawing in draw(result)]
        names |= {name for name, _, _ in plots}
        shown.append((benchmark, about, plots))
    for file in os.listdir(FOLDER):
        if file.endswith(".svg") and file.removesuffix(".svg") not in names:
            os.remove(os.path.join(FOLDER, file))
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    page = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: page_of(shown), page, flags=re.S)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page)
    for name in sorted(names):
        print(os.path.join(FOLDER, name + ".svg"))
    return 0 if names else 1


if __name__ == "__main__":
    sys.exit(main())
