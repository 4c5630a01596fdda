"""What the survey's filters did beside what their formulas say: distances in standard deviations, and reasons."""

import math

OUTSIDE = 3  # standard deviations

# What is outside of its formula, or has none: (filter, what): why.
RATE = "rate"
REASONS = {
    ("rte_member vBF", RATE): "it rounds its bits up to a power of two, and its 32-bit hashes put a floor under the rate",
    ("rte_member HT", RATE): "no formula is published; 16-bit signatures, and the same floor",
}


def sigmas(seen, asked, expected, spread=0.0):
    """Binomial; `spread` is the relative deviation of the rate itself from one filter to the next. Few expected: half a key is granted,
    since nobody can be seen in part."""
    mean = asked * expected
    deviation = math.sqrt(mean * (1 - expected) + (mean * spread) ** 2)
    distance = seen - mean
    if mean < 25:
        distance = math.copysign(max(0.0, abs(distance) - 0.5), distance)
    if deviation == 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / deviation


def rows_of(result):
    """Filters of all programs and sizes. What line8 measured beside the family counts once, with the survey's."""
    for size in result["sizes"] + result["dpdk_sizes"] + result["family_sizes"]:
        for row in size["rows"]:
            if not (row["filter"] == "line8" and size in result["family_sizes"]):
                yield row


def is_exact(row):
    return row["filter"].endswith("(exact)")


def rate_sigmas(row):
    """None: no formula."""
    if is_exact(row):
        return sigmas(row["positives"], row["asked"], 0)
    return sigmas(row["positives"], row["asked"], row["expected"], row["spread"]) if row["expected"] else None


def checks(result):
    """(filter, keys, what, expected, measured, sigmas or None, reason or None) of everything that a formula was asked about."""
    def check(name, keys, what, expected, measured, distance):
        return name, keys, what, expected, measured, distance, REASONS.get((name, what))

    for row in rows_of(result):
        if row["filter"].startswith("("):
            continue
        name, keys = row["filter"], row["keys"]
        yield check(name, keys, RATE, row["expected"], row["rate"], rate_sigmas(row))
        for claim in row["claims"]:
            yield check(name, keys, claim["what"], claim["expected"], claim["seen"] / claim["asked"],
                        sigmas(claim["seen"], claim["asked"], claim["expected"]))
    for row in result["flood"]:
        for who, asked in (("strangers", row["asked"]), ("members", row["asked_members"])):
            yield check(row["filter"], row["keys"], f"{who} found after a flood", row[f"expected_{who}"], row[who] / asked,
                        sigmas(row[who], asked, row[f"expected_{who}"]))
    for row in result["learned"]:
        yield check(row["filter"], row["members"], RATE, row["uniform_expected"], row["uniform_positives"] / row["asked"],
                    sigmas(row["uniform_positives"], row["asked"], row["uniform_expected"]))
    if "intersection" in result:
        row = result["intersection"]
        yield check("AND of two Bloom filters", None, RATE, row["expected"], row["bits_in_both"] / row["asked"],
                    sigmas(row["bits_in_both"], row["asked"], row["expected"]))
    for table in result["estimates"]:
        for row in table["rows"]:
            name = f"{table['filter']}, {table['bits_per_key']} bits: {table['pair']}"
            yield check(name, None, row["what"], row["exact"], row["mean"], (row["mean"] - row["exact"]) / row["error_of_mean"])
            if row["expected_deviation"]:  # of a sample of r: sd / sqrt(2 (r - 1))
                spread = row["expected_deviation"] / math.sqrt(2 * (table["repetitions"] - 1))
                yield check(name, None, f"deviation of {row['what']}", row["expected_deviation"], row["deviation"],
                            (row["deviation"] - row["expected_deviation"]) / spread)
    for table in result["line8_estimates"]:
        for row in table["rows"]:
            yield check(f"line8: {table['pair']}", None, row["what"], row["exact"], row["mean"],
                        (row["mean"] - row["exact"]) / row["error_of_mean"])


def is_outside(check):
    distance, reason = check[5:]
    return reason is None and (distance is None or abs(distance) > OUTSIDE)


def false_negatives(result):
    """Members that a filter lost which may lose none."""
    return (sum(row["false_negatives"] for row in rows_of(result)) + sum(row["false_negatives"] for row in result["learned"])
            + result.get("intersection", {}).get("lost", 0))


def systems(result):
    """Names of what was measured here, of the texts and their citations: neither libraries nor what is weir's own."""
    names = {row["filter"] for row in rows_of(result) if row["source"] == "test-only"} - {"line8 with a choice of 16 hashes"}
    names |= {row["filter"] for row in result["learned"] if row["filter"].startswith("learned")}
    if result["estimates"]:
        names |= {"cardinality from bits", "union from bits", "intersection from bits"}
    return names
