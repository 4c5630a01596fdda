"""The filter's benchmarks, one process a size, and their plots. docs/develop/figures.md tells how they measure.

Run as a program it only draws:  bench_filter.py FILTER.json FOLDER
"""

import json
import os
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../rig"))
import rooms  # noqa: E402,F401
from figures_filter import SIZES, available_mib, huge_pages
from rig import WORKER_NICE, Skip, placed, plot_anyhow, processors, say
from session import SessionError

PROGRAM = "tests/bench/bench_filter"
# 2 MiB pages for a size (filters of five layouts, snapshot, rte_member twice, rte_hash) and other memory beside, MiB.
MIB = {100_000: (128, 256), 1_000_000: (320, 256), 10_000_000: (2048, 512), 100_000_000: (14592, 2560)}
MIN_SECONDS = 0.05  # of a benchmark

# Lines of the plots.
OURS = ("filter_pipelined/line8", "filter_call/line8", "filter_and_table", "table")
PEERS = ("rte_member_vbf", "rte_member_ht", "rte_hash")
LAYOUTS = tuple(f"filter_hashes/{layout}" for layout in ("line8", "page2", "page7", "ribbon", "standard"))


def run_size(build, folder, n_keys):
    out = os.path.join(folder, f"filter-{n_keys}.json")
    command = [os.path.join(build, PROGRAM), f"--benchmark_filter=keys:{n_keys}/", f"--benchmark_min_time={MIN_SECONDS}",
               f"--benchmark_out={out}", "--benchmark_out_format=json"]
    reserved, beside = MIB[n_keys]
    if available_mib() < reserved + beside:
        raise Skip(f"{n_keys} keys need {reserved + beside} MiB of memory, {available_mib()} are available")
    usable, others = processors()
    with huge_pages(reserved):
        if subprocess.run(placed(command, [usable, *others], WORKER_NICE)).returncode != 0:
            raise SessionError(f"{PROGRAM} failed at {n_keys} keys")
    with open(out, encoding="utf-8") as file:
        return json.load(file)


def measure_filter(build, folder):
    """Google Benchmark's JSON of all sizes in one; a size that does not fit is told and left out."""
    if subprocess.run(["ninja", "-C", build, PROGRAM], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip(f"{PROGRAM} is not built: it needs Google Benchmark (scripts/setup bench)")
    result = {"benchmarks": []}
    for n_keys in (100_000, *SIZES.values()):
        try:
            part = run_size(build, folder, n_keys)
        except Skip as error:
            say(f"bench: filter: {error}")
            continue
        result["context"] = part["context"]
        result["benchmarks"] += part["benchmarks"]
    if not result["benchmarks"]:
        raise Skip("no size fits the memory")
    plot_anyhow(os.path.abspath(__file__), result, "filter", os.path.join(build, "bench"), folder)
    return result


def points(benchmarks):
    """{(what, keys, hits): net ns a key}, and {keys: limit}."""
    net, limits = {}, {}
    for row in benchmarks:
        if row.get("error_occurred"):
            continue
        what, keys, hits = row["name"].rsplit("/", 2)
        n_keys = int(keys.removeprefix("keys:"))
        net[what, n_keys, int(hits.removeprefix("hits:"))] = row["net_ns"]
        limits.setdefault(n_keys, row["limit_ns"])
    return net, limits


def plot(benchmarks, folder):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    net, limits = points(benchmarks)
    sizes = sorted(limits)

    def draw(name, title, x_label, lines, log_x):
        figure, axes = pyplot.subplots(figsize=(8, 5))
        for label, points_of, style in lines:
            if points_of:
                axes.plot(*zip(*sorted(points_of.items())), style, label=label)
        axes.set(title=title, xlabel=x_label, ylabel="ns per key, one core")
        axes.set_yscale("log")
        if log_x:
            axes.set_xscale("log")
        axes.grid(True, which="both", alpha=0.3)
        axes.legend(fontsize="small")
        path = os.path.join(folder, name)
        figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
        pyplot.close(figure)
        say(f"bench: {path}")

    limit = ("gather limit", limits, "k--")

    def by_size(names, hits):
        return [(name, {n: net[name, n, hits] for n in sizes if (name, n, hits) in net},
                 "o-" if name in OURS + LAYOUTS else "x:") for name in names] + [limit]

    draw("filter-sizes.png", "16-byte keys, none in the set", "keys in the set", by_size(OURS + PEERS, 0), True)
    draw("filter-layouts.png", "Layouts, hash excluded, none in the set", "keys in the set", by_size(LAYOUTS, 0), True)
    for n in sizes:
        lines = [(name, {hits: ns for (what, keys, hits), ns in net.items() if (what, keys) == (name, n)},
                  "o-" if name in OURS else "x:") for name in OURS + PEERS]
        draw(f"filter-hits-{n}.png", f"16-byte keys, {n:,} in the set", "hits, %", lines, False)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as results:
        plot(json.load(results)["benchmarks"], sys.argv[2])
