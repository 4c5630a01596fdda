"""Figures of the data path of both planes. docs/develop/figures.md says how each is measured."""

import dataclasses
import os
import statistics

from added_cycles import CLIENT, make_ready, make_row, measure_row, medians, run_one, weir_run
from bench_xdp import BASE, WEIR, measure_lookup, net_lookups, ratios
from figure import at_most, reported
from figures_mended import other
from port_rows import ROWS
from rig import build_commit, core_clock, say, spread
from session import ROOT

ROUNDS, RUNS = 5, 3
BEFORE = os.environ.get("WEIR_BEFORE", "22bc7bd0")  # the last commit before loop.h
# By row: the most that the cycles it adds may be, of those of the commit before; None: reported.
RATIOS = {"empty": None, "src_1m": 0.6, "srcdst_1m": 0.6, "flow_1m": 0.65, "vlan_1m": 0.65, "v6_1m": 0.55, "halfhit": None,
          "allhit": 0.65, "src_10m": 0.75}
PORT_ROUNDS, SECONDS = int(os.environ.get("WEIR_ROUNDS", 7)), 2
ENTRIES = 1_000_000
MAKER = "tests/bench/make_snapshot"
TAGS = (1, 2)
WALKS = ("a burst without suspects", "a suspect")  # of docs/develop/walks.md


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
        before, other = build_commit(BEFORE, build, ("dataplane/dataplane", CLIENT, MAKER))
        row = ROWS[name]
        made, made_before = make_row(build, row), make_row(other, row)  # snapshots of other formats
        base = "testpmd-rxonly" if row.sink else "testpmd-io"
        who = {base: lambda: run_one(build, row, made, base, SECONDS), "before": lambda: weir_run(other, made_before, row, SECONDS),
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


IO, MACSWAP = "testpmd-io", "testpmd-macswap"


def added_mix(build, _folder):
    """Real frames and a real list on a port that copies no frame, and that tells the cycles spent inside it."""
    rows = {"empty": ROWS["mix_frames_port_empty"], "weir": ROWS["mix_frames_port"]}
    made = {name: make_ready(build, row) for name, row in rows.items()}
    who = {IO: ("weir", IO), MACSWAP: ("weir", MACSWAP), "empty": ("empty", "weir"), "weir": ("weir", "weir")}
    rounds = []
    for number in range(PORT_ROUNDS):
        turn = number % len(who)
        ghz = core_clock(build)["ghz"]
        rounds.append({name: dict(run_one(build, rows[who[name][0]], made[who[name][0]], who[name][1], SECONDS), ghz=ghz)
                       for name in list(who)[turn:] + list(who)[:turn]})
        say(f"mix: round {number + 1}: " + ", ".join(f"{name} {run['ns'] * ghz:.0f} cycles" for name, run in rounds[-1].items()))
    cycles = {name: [added(run[name], run[IO]) for run in rounds] for name in (MACSWAP, "empty", "weir")}
    port = {name: [statistics.median(run[name]["port_ns"][side] * run[name]["ghz"] for run in rounds) for side in ("receive", "send")]
            for name in who}
    stages = {name: statistics.median(run["weir"]["stage_ns"][name] * run["weir"]["ghz"] for run in rounds)
              for name in rounds[0]["weir"]["stage_ns"]}
    value = statistics.median(cycles["weir"])
    note = (f"cycles added: {spread(cycles['weir'], 0)}; by an empty policy {statistics.median(cycles['empty']):.0f}, by {MACSWAP} "
            f"{statistics.median(cycles[MACSWAP]):.0f}; a packet " +
            ", ".join(f"{name} {statistics.median(run[name]['ns'] for run in rounds):.1f} ns" for name in who) +
            "; cycles inside the port, receive + send: " +
            ", ".join(f"{name} {receive:.0f} + {send:.0f}" for name, (receive, send) in port.items()) +
            "; lists by stage: " + ", ".join(f"{name} {value:.0f}" for name, value in stages.items()) +
            f"; {statistics.median(run['weir']['dropped'] for run in rounds):.2%} dropped")
    return [at_most("loop.added_mix", value, 50, "cycles", note)], rounds


def ratio_mix(build, _folder):
    """The same on net_pcap, whose copying misses the caches that gates and frames share."""
    result = measure_row(build, ROWS["mix_combined"], PORT_ROUNDS)
    values = [run["ratio"] for run in result["runs"]]
    return [reported("loop.ratio_mix", statistics.median(values), "of testpmd", f"{spread(values, 2)}; {medians(result)}")], result


def xdp_miss(build, _folder):
    """Misses of a million hosts, net of parse and pass, beside the kernel's Bloom map in front of a hash map."""
    rounds = [measure_lookup(build, ENTRIES, (0,), RUNS, (BASE, "bloom", WEIR)) for _ in range(ROUNDS)]
    rows = [result["rows"][0] for result in rounds]
    net = {peer: [ns for row in rows for ns in net_lookups(row, peer)] for peer in ("bloom", WEIR)}
    base = statistics.median(ns[BASE] for row in rows for ns in row["ns"])
    vs_bloom = ratios(net[WEIR], net["bloom"])
    note = (f"net ns a packet: weir {spread(net[WEIR], 1)}, Bloom map {spread(net['bloom'], 1)}; parse and pass {base:.1f} ns; "
            f"{rounds[-1]['ghz']:.2f} GHz")
    return [reported("loop.xdp_miss_ns", statistics.median(net[WEIR]), "ns", note),
            at_most("loop.xdp_miss_vs_bloom", statistics.median(vs_bloom), 0.5, "ratio", f"{spread(vs_bloom)}; {note}")], rounds


def table_rows(page, heading):
    """The rows of the first table below a line of a page that begins with `heading`: lists of cells."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        lines = file.read().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(heading))
    first = next(number for number in range(begin, len(lines)) if lines[number].startswith("|"))
    rows = []
    for line in lines[first + 2:]:  # behind the header and its rule
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def listed_files(walk):
    """The files that the list of docs/develop/walks.md names for it; a file in a folder has to be there."""
    with open(os.path.join(ROOT, "docs/develop/walks.md"), encoding="utf-8") as file:
        item = next(line for line in file if line.startswith(f"- {walk}"))
    names = item.split(":", 1)[1].split("`")[1::2]
    missing = [name for name in names if "/" in name and "ISA" not in name and not os.path.exists(os.path.join(ROOT, name))]
    if missing:
        raise ValueError(f"docs/develop/walks.md names files that are not there: {', '.join(missing)}")
    return names


def walks(_build, _folder):
    """Counts of docs: files that a burst without suspects and a suspect pass, types that a reader of the loop holds."""
    counts = {row[0].split(",")[0]: row[2] for row in table_rows("docs/develop/walks.md", "# How many files")}
    files = {name: listed_files(name) for name in WALKS}
    types = [name for row in table_rows("docs/architecture.md", "A reader of the loop holds") for name in row[0].split("`")[1::2]]
    shared = files["a burst without suspects"]
    own = {"walk_files": ("a burst without suspects", shared), "suspect_files": ("a suspect", shared + files["a suspect"])}
    figures = []
    for name, (walk, names) in own.items():
        if counts[walk] != str(len(names)):
            raise ValueError(f"docs/develop/walks.md: {walk}: the table has {counts[walk]} files, the list below it {len(names)}")
        figures.append(reported(f"loop.{name}", len(names), "files", ", ".join(names)))
    return [*figures, reported("loop.types", len(types), "types", ", ".join(types))], {"files": files, "types": types}


def spread_lost(build, _folder):
    """mended.spread_lost by its other name."""
    return [dataclasses.replace(other("spread_lost", build), name="loop.spread_lost")], None


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    *(((f"loop.ratio_{name}",), ratio_of_row(name)) for name in RATIOS),
    (("loop.xdp_vlan_ratio",), xdp_vlan),
    (("loop.added_mix",), added_mix),
    (("loop.ratio_mix",), ratio_mix),
    (("loop.xdp_miss_ns", "loop.xdp_miss_vs_bloom"), xdp_miss),
    (("loop.walk_files", "loop.suspect_files", "loop.types"), walks),
    (("loop.spread_lost",), spread_lost),
)
