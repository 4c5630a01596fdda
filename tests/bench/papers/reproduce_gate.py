"""The gate: which real packets pass it, what it costs and saves, when it loses; docs/develop/gate.md tells what was found."""

import glob
import gzip
import lzma
import os
import re
import shutil
import statistics
import tarfile

from all_lists import COUNTRIES, write_countries
from reproduce_output import axes, save, table
from rig import say
from session import ROOT

PROGRAMS = ["gate_shares", "gate"]

# A share of a capture's strangers says something when there are so many of them: that of one host is 0 or 1.
LEAST_STRANGERS, LEAST_ADDRESSES = 1000, 100
REAL_LIST, REAL_CAPTURE = "combined-v4", "mix_shared"
POLICY = """\
version: 1
filter: {{memory: 4GiB}}
lists:
  - {{name: '{name}', action: drop, match: src, file: '{path}', allow_any: true, guard: {{reserved: keep, min_entries: 0}}}}
"""


def prepare(folder):
    """Lays the real lists and captures out for the programs; their environment. Without test data they do without."""
    data = os.path.realpath(os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data")))
    if not os.path.isdir(os.path.join(data, "blocklists")):
        say(f"reproduce: no real lists and captures: WEIR_DATA names their folder, {data} is none")
        return {}
    out = os.path.join(folder, "gate-data")
    shutil.rmtree(os.path.join(out, "lists"), ignore_errors=True)
    os.makedirs(os.path.join(out, "lists"))
    for name, path in lists_of(data, out):
        with open(os.path.join(out, "lists", name + ".yaml"), "w", encoding="utf-8") as policy:
            policy.write(POLICY.format(name=name, path=path))
    with open(os.path.join(out, "captures.txt"), "w", encoding="utf-8") as captures:
        for name, paths in captures_of(data, out):
            captures.write("\t".join((name, *paths)) + "\n")
    return {"REPRODUCE_GATE_DATA": out}


def lists_of(data, out):
    """[(name, path)] of all lists, of a list's updates the newest; controld unpacks and recognises them."""
    folder = os.path.join(data, "blocklists")
    for file in sorted(os.listdir(folder)):
        path = os.path.join(folder, file)
        if os.path.isfile(path) and file != "SOURCES.md" and not file.endswith(".tar.xz"):
            yield re.sub(r"(\.txt)?(\.xz)?$", "", file), path
    for family in ("ipv4", "ipv6"):
        path = os.path.join(out, f"countries-{family}.txt")
        write_countries(os.path.join(folder, COUNTRIES), family, path)
        yield f"countries-{family}", path


def captures_of(data, out):
    """[(name, paths)] of all captures; an archive of many is one."""
    folder = os.path.join(data, "pcaps")
    for file in sorted(os.listdir(folder)):
        path = os.path.join(folder, file)
        name = re.sub(r"\.pcap(ng)?(\.[gx]z)?$|\.tar\.xz$", "", file)
        if file.endswith(".tar.xz"):
            with tarfile.open(path) as archive:
                archive.extractall(os.path.join(out, name))
            yield name, sorted(os.path.join(inner, one) for inner, _, files in os.walk(os.path.join(out, name)) for one in files)
        elif file.endswith((".xz", ".gz")):
            plain = os.path.join(out, file[:-3])
            with (lzma if file.endswith(".xz") else gzip).open(path) as packed, open(plain, "wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
            yield name, [plain]
        elif ".pcap" in file:
            yield name, [path]


def conclude(result):
    """What the raw figures come to, and the caches they came from: {"worst": {"pass_share", "where", ...}, "break_even": {...}, ...}."""
    return {"worst": worst(result), "rival": rival(result), "break_even": break_even(result), "caches": caches()}


def caches():
    """{name: bytes} of those that hold data."""
    found = {}
    for folder in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cache/index*")):
        level, kind, size = (open(os.path.join(folder, name), encoding="ascii").read().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found["L" + level] = int(size.removesuffix("K")) * 1024
    return found


def rows_of(result, least_strangers=LEAST_STRANGERS, least_addresses=LEAST_ADDRESSES):
    """Captures by lists for which the product builds tables, with so many strangers."""
    traffic = result["traffic"]
    if traffic is None:
        return []
    gated = {(one["list"], family["family"]) for one in traffic["lists"] for family in one["families"] if family["gate"] == "tables"}
    return [row for row in traffic["rows"] if (row["list"], row["family"]) in gated and row["strangers"] >= least_strangers
            and row["stranger_addresses"] >= least_addresses]


def where(row):
    return (f"{row['list']}, {row['side']}s of IPv{row['family']} in {row['capture']}:"
            f" {row['strangers']} packets of strangers, {row['stranger_addresses']} addresses")


def worst(result):
    """The widest share of strangers that passed, of a capture and a list, at the width that the product chooses. pass_share is None
    without test data."""
    rows = rows_of(result)
    if not rows:
        return {"pass_share": None, "where": "no test data"}
    row = max(rows, key=lambda one: one["pass_share"])
    found = {"pass_share": row["pass_share"], "where": where(row), "pairs": len(rows), "least_strangers": LEAST_STRANGERS,
             "least_addresses": LEAST_ADDRESSES}
    for family in (4, 6):
        of_family = [one for one in rows if one["family"] == family]
        widest = max(of_family, key=lambda one: one["pass_share"], default=None)
        if widest is not None:
            found[f"ipv{family}"] = {"pass_share": widest["pass_share"], "where": where(widest), "pairs": len(of_family),
                                     "median": statistics.median(one["pass_share"] for one in of_family)}
    return found


def rival(result):
    """The gate and a bitmap of hashes of the same bytes over all those captures and lists of IPv4: who lets less through."""
    rows = [row for row in rows_of(result) if row["hashed_share"] is not None]
    if not rows:
        return None
    shares = {way: [row[key] for row in rows] for way, key in (("gate", "pass_share"), ("hashed", "hashed_share"))}
    return {"pairs": len(rows), "gate_less": sum(a < b for a, b in zip(*shares.values())),
            "hashed_less": sum(b < a for a, b in zip(*shares.values())),
            **{f"{way}_{name}": of(values) for way, values in shares.items() for name, of in (("mean", statistics.mean), ("max", max))}}


def break_even(result):
    """The share of strangers that pass the gate at which it costs what it saves, lookups alone beside it; None: never."""
    found = {}
    for way in ("gate", "watched", "hashed"):
        points = [(row["gate_share"], row["ns"][way] - row["ns"]["filter"]) for row in result["by_share"]]
        found[way] = next((x0 + (x1 - x0) * -y0 / (y1 - y0) for (x0, y0), (x1, y1) in zip(points, points[1:]) if y0 <= 0 < y1), None)
    return found


def table_name(family):
    if family["gate"] != "tables":
        return family["gate"]
    return " ".join(f"/{prefix}" + ("" if size_bytes * 8 == 1 << prefix else f" in {size_bytes >> 10} KiB of words") for prefix, size_bytes in family["tables"])


def bytes_name(n):
    return f"{n / 2**20:g} MiB" if n >= 2**20 else f"{n / 2**10:g} KiB"


def report(result):
    if result["traffic"] is not None:
        report_traffic(result)
    table("random lists: share of the strangers from anywhere that pass",
          ["hosts", "width", "1-(1-2^-w)^n", "bits set", "measured"],
          [[row["hosts"], row["width"], row["formula"], row["set_share"], row["pass_share"]] for row in result["random_lists"]])
    sizes = ", ".join(f"{name} {bytes_name(size)}" for name, size in result["caches"].items())
    print(f"\n{result['kernels']} kernels, {result['ghz']:.2f} GHz, {sizes}; {result['strangers']:,} strangers,"
          f" medians of {result['repetitions']}; ns a packet, to have its address ({way_ns(result, 'addresses'):.2g} ns) taken off")
    ways = ("filter", "gate", "hashed", "larger")
    table("random lists, strangers from anywhere",
          ["hosts", "filter", "gate", "pass gate", "pass hashed", "larger's rate", *(f"{way} ns" for way in ways)],
          [[row["hosts"], bytes_name(row["filter_bytes"]), bytes_name(row["gate_bytes"]), row["gate_share"], row["hashed_share"],
            row["larger_rate"], *(net(row, way) for way in ways)] for row in result["by_level"]])
    ways = ("filter", "gate", "watched", "hashed", "larger")
    table("strangers ever nearer to those who are listed",
          ["list", "hosts", "width", "strangers", "pass gate", "pass hashed", *(f"{way} ns" for way in ways)],
          [[row["list"], row["hosts"], row["width"], row["strangers"], row["gate_share"], row["hashed_share"],
            *(net(row, way) for way in ways)] for row in result["by_neighbourhood"]])
    table(f"strangers of {result['by_share'][0]['list']}, some of them next door (same /28), the others from anywhere",
          ["next door, %", "pass gate", "pass hashed", *(f"{way} ns" for way in ways)],
          [[row["next_door_percent"], row["gate_share"], row["hashed_share"], *(net(row, way) for way in ways)]
           for row in result["by_share"]])
    print("\nbreak-even: the gate costs what it saves when it lets through "
          + "; ".join(f"{share:.0%} ({way})" if share is not None else f"no share ({way})" for way, share in result["break_even"].items()))


def way_ns(result, way):
    return statistics.median(row["ns"][way] for row in result["by_level"])


def net(row, way):
    return row["ns"][way] - row["ns"]["addresses"]


def report_traffic(result):
    traffic = result["traffic"]
    table("lists: the gate that the product plans for each alone, and the share of random addresses that pass",
          ["list", "entries", "family", "gate", "bits set", "keys to hash", "hashes a packet"],
          [[one["list"], one["entries"], family["family"], table_name(family), family["set_share"], family.get("hashed_keys"),
            family.get("hashed_probes")] for one in traffic["lists"] for family in one["families"]])
    rows = rows_of(result)
    captures = sorted({(row["capture"], row["family"], row["side"]) for row in rows})
    table(f"captures with {LEAST_STRANGERS:,} packets of {LEAST_ADDRESSES} strangers: share that passes the product's gates, over all lists",
          ["capture", "family", "side", "lists", "median", "largest", "of list", "hashed there"],
          [summary(name, [row for row in rows if (row["capture"], row["family"], row["side"]) == name]) for name in captures])
    widths = traffic["widths"]["4"]
    shown = [row for row in traffic["rows"] if (row["capture"], row["family"]) == (REAL_CAPTURE, 4) and row["strangers"] > 0]
    table(f"{REAL_CAPTURE}: share of IPv4 strangers that pass, by width", ["list", "side", *(f"/{width}" for width in widths), "hashed"],
          [[row["list"], row["side"][:3], *(percent(share) for share in row["by_width"]), percent(row["hashed_share"])]
           for row in sorted(shown, key=lambda row: row["list"])])
    found = result["worst"]
    for family in ("ipv4", "ipv6"):
        if family in found:
            print(f"\nworst of {found[family]['pairs']} (median {found[family]['median']:.3%}): {found[family]['pass_share']:.2%}:"
                  f" {found[family]['where']}")
    both = result["rival"]
    print(f"IPv4, {both['pairs']} captures by lists: the gate lets less through in {both['gate_less']}, hashes of as many bytes in"
          f" {both['hashed_less']}; means {both['gate_mean']:.3%} and {both['hashed_mean']:.3%}, largest {both['gate_max']:.2%} and"
          f" {both['hashed_max']:.2%}")
    small = max(rows_of(result, 1, 1), key=lambda row: (row["pass_share"], row["strangers"]))
    print(f"with captures of any size: {small['pass_share']:.2%}: {where(small)}")


def percent(share):
    return None if share is None else f"{share:.2%}"


def summary(name, rows):
    largest = max(rows, key=lambda row: row["pass_share"])
    return [*name, len(rows), percent(statistics.median(row["pass_share"] for row in rows)), percent(largest["pass_share"]),
            largest["list"], percent(largest["hashed_share"])]


def plot(result, folder):
    if result["traffic"] is not None:
        plot_widths(result, folder)
    figure, plane = axes("bytes of the gate", "ns per stranger, its address not counted", "random lists, strangers from anywhere")
    for hosts, colour in zip(sorted({row["hosts"] for row in result["by_level"]}), ("tab:green", "tab:orange", "tab:red", "tab:blue")):
        rows = [row for row in result["by_level"] if row["hosts"] == hosts]
        sizes = [row["gate_bytes"] for row in rows]
        for way, style in (("gate", "o-"), ("hashed", "s--"), ("larger", "^:"), ("filter", "-.")):
            names = {"gate": "gate + filter", "hashed": "hashes + filter", "larger": "larger filter", "filter": "filter alone"}
            plane.plot(sizes, [net(row, way) for row in rows], style, color=colour, markersize=4, label=f"{hosts:,} hosts: {names[way]}")
    plane.set_xscale("log", base=2)
    for name, size in result["caches"].items():
        plane.axvline(size, color="grey", alpha=0.4)
        plane.text(size, plane.get_ylim()[1], " " + name, va="top", fontsize=8, color="grey")
    save(figure, folder, "gate-cost", legend="beside")

    figure, plane = axes("strangers that pass the gate, %", "ns per stranger, its address not counted",
                         f"{result['by_share'][0]['list']}: some strangers live next door")
    for way, style, name in (("filter", "-", "filter alone"), ("gate", "o-", "gate + filter"), ("watched", "v-", "gate, gone around above 75 %"),
                             ("hashed", "s--", "hashes + filter"), ("larger", "^:", "larger filter")):
        plane.plot([100 * row["gate_share"] for row in result["by_share"]], [net(row, way) for row in result["by_share"]], style,
                   markersize=4, label=name)
    plane.set_ylim(0, None)
    save(figure, folder, "gate-share")


def plot_widths(result, folder):
    traffic = result["traffic"]
    widths = traffic["widths"]["4"]
    figure, plane = axes("width: leading bits of the address", "share of strangers that pass, %",
                         f"sources of {REAL_CAPTURE} (lines), random addresses (dots)")
    largest = sorted((one for one in traffic["lists"] if any(family["family"] == 4 for family in one["families"])),
                     key=lambda one: -one["entries"])
    names = [one["list"] for one in largest if one["list"] in ("spamhaus_drop", "ipsum", "x4b_datacenter_ipv4", "wael_p2p.p2p", REAL_LIST)]
    for name, colour in zip(names, ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple")):
        about = next(one for one in traffic["lists"] if one["list"] == name)
        family = next(one for one in about["families"] if one["family"] == 4)
        row = next((row for row in traffic["rows"] if (row["list"], row["capture"], row["family"], row["side"])
                    == (name, REAL_CAPTURE, 4, "source")), None)
        if row is None or row["pass_share"] is None:
            continue
        for shares, style, label in ((row["by_width"], "-", f"{name}: {about['entries']:,} entries"), (family["set_by_width"], ":", None)):
            points = [(width, 100 * share) for width, share in zip(widths, shares) if share]
            plane.plot(*zip(*points), style, color=colour, label=label)
        for prefix, _ in family["tables"]:
            if row["pass_share"]:
                plane.plot(prefix, 100 * row["pass_share"], "*", color=colour, markersize=11)
    plane.set_yscale("log")
    save(figure, folder, "gate-width")
