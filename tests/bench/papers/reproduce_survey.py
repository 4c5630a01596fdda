"""The filters of the surveys and their relatives in one table, beside their formulas; docs/develop/why-not.md has a row for each."""

import math
import os

from reproduce_output import axes, save, table
from reproduce_published import SURVEY_SPACE
from rig import Skip, say, test_data
from survey_formulas import checks, false_negatives, is_outside, rate_sigmas, rows_of, systems

PROGRAMS = ["survey", "survey_dpdk", "survey_family", "survey_lists"]

# Pairs of real lists whose keys are estimated; the first list is also what the learned filter learns.
LISTS = "blocklists/"
PAIRS = (
    ("romainmarcoux_full.txt.xz", "ipsum.txt.xz"),
    ("maltrail_mass_scanner.txt.xz", "ipsum.txt.xz"),
    ("x4b_datacenter_ipv4.txt.xz", "x4b_vpn_ipv4.txt"),
    ("updates/x4b_datacenter_v4/00_1786874840_4f8775107d.txt.xz", "updates/x4b_datacenter_v4/07_1787391887_cbdc9b9227.txt.xz"),
    ("spamhaus_drop.txt", "spamhaus_edrop.txt"),
)


def prepare(folder):
    """Unpacks the real lists; environment that names them. Without test data the program of lists does nothing."""
    out = os.path.join(folder, "survey-lists")
    os.makedirs(out, exist_ok=True)
    try:
        pairs = [",".join(test_data(LISTS + name, out) for name in pair) for pair in PAIRS]
    except Skip as error:
        say(f"reproduce: no estimates of real lists, no learned filter: {error}")
        pairs = []
    return {"REPRODUCE_SURVEY_PAIRS": ";".join(pairs)}


def conclude(result):
    found = list(checks(result))
    return {"checks": [dict(zip(("filter", "keys", "what", "expected", "measured", "sigmas", "reason"), check)) for check in found],
            "outside": sum(map(is_outside, found)), "false_negatives": false_negatives(result), "systems": sorted(systems(result))}


def bloom_bits(rate):
    """Bits per key of a Bloom filter of the best k. Any filter needs at least 1/1.44 of it (Pagh, Pagh, Rao 2005)."""
    return -math.log2(rate) / math.log(2)


def space(row):
    """Relative to the best Bloom filter of that rate."""
    return row["bits_per_key"] / bloom_bits(row["rate"]) if 0 < row["rate"] < 1 and row["bits_per_key"] else None


def published_space(name):
    return next((space for key, space in SURVEY_SPACE.items() if name.lower().startswith(key.lower())), None)


def report(result):
    for keys in sorted({row["keys"] for row in rows_of(result)}):
        rows = [row for row in rows_of(result) if row["keys"] == keys]
        table(f"{keys:,} keys of 16 bytes; space: relative to the best Bloom filter of that rate; the rest: ns a key",
              ["filter", "from", "bits/key", "rate", "expected", "sigmas", "space", "survey's", "insert", "stranger", "member", "delete"],
              [[row["filter"], row["source"], row["bits_per_key"] or None, row["rate"], row["expected"] or None, rate_sigmas(row),
                space(row), published_space(row["filter"]), row["insert_ns"] or None, row["negative_ns"], row["positive_ns"],
                row.get("delete_ns")] for row in rows])
    table("what else the formulas say", ["filter", "keys", "what", "expected", "measured", "sigmas"],
          [[check["filter"], check["keys"], check["what"], check["expected"], check["measured"], check["sigmas"]]
           for check in result["checks"] if check["what"] != "rate" and check["keys"]])
    report_lists(result)
    for check in result["checks"]:
        if check["reason"] or is_outside(tuple(check.values())):
            distance = "no formula" if check["sigmas"] is None else f"{check['sigmas']:.1f} sigmas"
            print(f"\n{check['filter']}, {check['keys']} keys, {check['what']}: {distance}: {check['reason'] or 'NOT EXPLAINED'}")
    print(f"\n{len(result['systems'])} systems measured, {result['false_negatives']} members lost that may not be,"
          f" {result['outside']} of {len(result['checks'])} formulas outside of 3 sigmas without a reason")


def report_lists(result):
    for found in result["estimates"]:
        table(f"{found['pair']}: {found['filter']}, {found['bits_per_key']} bits for each key of the larger, {found['repetitions']}"
              f" filters; filling both {found['fill_ms']:.3g} ms, counting bits {found['count_ms']:.3g} ms; exact, by sorting,"
              f" {found['exact_ms']:.3g} ms",
              ["what", "exact", "mean", "off by", "deviation", "by formula"],
              [[row["what"], row["exact"], row["mean"], relative(row["mean"], row["exact"]), row["deviation"],
                row["expected_deviation"] or None] for row in found["rows"]])
    table("keys from line8's own bits, 12 a key", ["list", "exact", "mean", "off by", "deviation"],
          [[found["pair"].split(",")[0], row["exact"], row["mean"], relative(row["mean"], row["exact"]), row["deviation"]]
           for found in result["line8_estimates"] for row in found["rows"]])
    if "intersection" in result:
        row = result["intersection"]
        print(f"\n{row['pair']}, {row['bits_per_key']} bits for each key of the larger: rate of the AND of both"
              f" filters {row['bits_in_both'] / row['asked']:.3g}, of one of them {row['one_of_the_two'] / row['asked']:.3g}, of a filter made of the intersection"
              f" {row['made_of_the_intersection'] / row['asked']:.3g}")
    table("addresses of the first list: strangers from anywhere, and from the members' own /24s",
          ["filter", "bits/key", "model", "before", "behind", "rate", "expected", "model says", "rate next door", "model says",
           "insert ns", "member ns", "stranger ns", "next door ns"],
          [[row["filter"], row["bits_per_key"], row.get("leading_bits") and f"/{row['leading_bits']}, from {row['threshold']}",
            row.get("before_bits_per_key"), row.get("behind_bits_per_key"), row["uniform_positives"] / row["asked"],
            row["uniform_expected"], row["uniform_said_by_model"], row["neighbours_positives"] / row["asked"], row["neighbours_said_by_model"], row["insert_ns"],
            row["member_ns"], row["uniform_ns"], row["neighbours_ns"]] for row in result["learned"]])


def relative(value, exact):
    return f"{(value - exact) / exact:+.3%}" if exact else f"{value:+.3g}"


MARKERS = "*os^vDPX<>phd8"


def plot(result, folder):
    keys = min(size["keys"] for size in result["sizes"])
    figure, plane = axes("bits per key", "stranger, ns per key", f"{keys:,} keys of 16 bytes (and the rate)")
    rows = [row for row in rows_of(result) if row["keys"] == keys and row["bits_per_key"]]
    figure.set_size_inches(9, 7.5)
    for i, row in enumerate(rows):
        plane.plot(row["bits_per_key"], row["negative_ns"], MARKERS[i % len(MARKERS)], markersize=8,
                   markerfacecolor=None if i < len(MARKERS) else "none", label=f"{row['filter']}: {row['rate']:.3%}")
    plane.set_xscale("log")
    plane.set_yscale("log")
    save(figure, folder, "survey", legend="beside")

    figure, plane = axes("bits per key", "false-positive rate", f"{keys:,} keys of 16 bytes: rate by size")
    figure.set_size_inches(9, 7.5)
    shown = [row for row in rows if 0 < row["rate"] < 1 and row["bits_per_key"] < 64]
    bits = [4 + 0.5 * i for i in range(120)]
    plane.plot(bits, [2.0 ** -b for b in bits], "--", color="grey", label="information bound")
    plane.plot(bits, [2 ** (-b * math.log(2)) for b in bits], color="black", linewidth=1, label="best Bloom filter")
    for i, row in enumerate(shown):
        plane.plot(row["bits_per_key"], row["rate"], MARKERS[i % len(MARKERS)], markersize=7,
                   markerfacecolor=None if i < len(MARKERS) else "none", label=row["filter"])
    plane.set_xscale("log")
    plane.set_yscale("log")
    plane.set_ylim(1e-5, 0.2)
    save(figure, folder, "survey-rate", legend="beside")

    found = [check for check in result["checks"] if check["sigmas"] is not None and abs(check["sigmas"]) < 10]
    figure, plane = axes("distance from the formula, standard deviations", "", f"{len(found)} formulas (further away ones are explained)")
    plane.hist([check["sigmas"] for check in found], bins=[i / 2 for i in range(-14, 15)], label="measured")
    for side in (-3, 3):
        plane.axvline(side, color="tab:red", label="3 sigmas" if side > 0 else None)
    save(figure, folder, "survey-formulas")
    if result["estimates"]:
        plot_estimates(result, folder)


def plot_estimates(result, folder):
    figure, plane = axes("keys", "standard deviation of the estimate, keys", "numbers of keys from the bits of filters")
    for what, marker in (("one list", "o"), ("either", "s"), ("both", "^"), ("one of the two only", "v")):
        for filter_bits, colour in ((12, "tab:blue"), (2, "tab:orange")):
            points = [(row["exact"], row["deviation"]) for found in result["estimates"] if found["bits_per_key"] == filter_bits
                      for row in found["rows"] if row["what"] == what and row["exact"] > 0]
            plane.plot(*zip(*points), marker, color=colour, label=f"{what}, {filter_bits} bits a key")
    plane.set_xscale("log")
    plane.set_yscale("log")
    save(figure, folder, "survey-estimates", legend="beside")
