"""The filters of two surveys in one table; those that nobody here has built, by formula."""

import math

from reproduce_output import axes, save, table
from reproduce_published import SURVEY_SPACE

PROGRAMS = ["survey", "survey_dpdk"]


def bloom_bits(rate):
    """Bits per key of a Bloom filter of the best k. Any filter needs at least 1/1.44 of it (Pagh, Pagh, Rao 2005)."""
    return -math.log2(rate) / math.log(2)


def rows_of(result):
    for size in result["sizes"] + result["dpdk_sizes"]:
        yield from size["rows"]


def published_space(name):
    return next((space for key, space in SURVEY_SPACE.items() if name.lower().startswith(key.lower())), None)


def report(result):
    for keys in sorted({row["keys"] for row in rows_of(result)}):
        rows = [row for row in rows_of(result) if row["keys"] == keys]
        table(f"{keys:,} keys of 16 bytes; space: relative to the best Bloom filter of that rate; the rest: ns a key",
              ["filter", "from", "bits/key", "rate", "expected", "space", "survey's", "insert", "stranger", "member",
               "delete"],
              [[row["filter"], row["source"], row["bits_per_key"] or None, row["rate"], row["expected"] or None,
                row["bits_per_key"] / bloom_bits(row["rate"]) if 0 < row["rate"] < 1 and row["bits_per_key"] else None,
                published_space(row["filter"]), row["insert_ns"] or None, row["negative_ns"], row["positive_ns"],
                row.get("delete_ns")] for row in rows])
    print()
    for line in by_formula():
        print(line)


def by_formula():
    rate, bits, k = 0.0042, 12, 8
    # Deng & Rafiei 2006, one-bit cells: each insertion clears P cells at random and sets K. Stationary fraction of ones
    # s = K / (K + P), rate s^K; a cell set t insertions ago is one with s + (1 - s) exp(-t (K + P) / m).
    ones = rate ** (1 / k)
    cleared = k * (1 - ones) / ones
    kept = (ones + (1 - ones) * math.exp(-(k + cleared) / bits)) ** k
    yield (f"stable Bloom, {bits} bits for each of the last n keys, K = {k}, rate {rate}: P = {cleared:.1f};"
           f" it has forgotten {1 - kept:.1%} of the keys that are n insertions old")
    # Table 1 of Madison & Zipper: 1.9 times the keys in the same bits at the same rate.
    yield (f"fuzzy-folded Bloom: the survey's 1.9 times the keys at one rate; no structure can hold more than"
           f" {1 / math.log(2):.2f} times those of the best Bloom filter;"
           f" h (f + 2) lines a lookup: {k * 5} for h = {k}, f = 3")
    # Chazelle, Kilian, Rubinfeld, Tal 2004 by three hashes per key (Botelho, Pagh, Ziviani 2007: 1.23 slots a key).
    check_bits, rule_bits = 8, 16
    yield (f"Bloomier, {check_bits} bits of check and {rule_bits} of rule id:"
           f" {1.23 * (check_bits + rule_bits):.1f} bits a key, rate {2 ** -check_bits:.4f};"
           f" a false positive answers with a wrong rule")
    # Boldi & Vigna 2005: m cells of the lattice; an answer is too large with at most the Bloom filter's probability.
    value_bits = 6  # prefix lengths 0..32 of IPv4
    yield (f"compact approximator of prefix lengths, {bits} cells of {value_bits} bits a key, k = {k}:"
           f" {bits * value_bits} bits a key, too large an answer for at most {(1 - math.exp(-k / bits)) ** k:.4f}"
           f" of the strangers")


def plot(result, folder):
    keys = min(size["keys"] for size in result["sizes"])
    figure, plane = axes("bits per key", "stranger, ns per key", f"{keys:,} keys of 16 bytes (and the rate)")
    rows = [row for row in rows_of(result) if row["keys"] == keys and row["bits_per_key"]]
    for row, marker in zip(rows, "*os^vDPX<>phd8"):
        plane.plot(row["bits_per_key"], row["negative_ns"], marker, markersize=8,
                   label=f"{row['filter']}: {row['rate']:.3%}")
    plane.set_xscale("log")
    plane.set_yscale("log")
    save(figure, folder, "survey", legend="beside")
