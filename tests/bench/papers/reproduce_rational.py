"""The Rational Bloom filter: measurement, continuous formula and mixture."""

from reproduce_output import axes, save, table

PROGRAMS = ["rational"]
VARIANTS = ("reused", "independent")


def sigmas(row, variant, formula):
    return (row[variant] - row[formula]) / row[variant + "_error"]


def report(result):
    curve = result["curve"]
    table(f"m = {result['bits']:,}, n = {result['keys']:,}: rate, and its distance from two formulas in errors",
          ["k", "mixture", "continuous", *(word for v in VARIANTS for word in
                                           ("H_r " + v, "error", "from mixture", "from continuous"))],
          [[row["k"], row["mixture"], row["continuous"],
            *(value for v in VARIANTS for value in
              (row[v], row[v + "_error"], sigmas(row, v, "mixture"), sigmas(row, v, "continuous")))]
           for row in curve])
    broken = [row for row in curve if row["k"] != int(row["k"])]
    for v in VARIANTS:
        squares = sum(sigmas(row, v, "mixture") ** 2 for row in broken)
        lowest = min(curve, key=lambda row: row[v])
        print(f"\n{v}: chi-square from the mixture at non-integer k: {squares:.1f} for {len(broken)} points;"
              f" from the continuous curve at least {min(sigmas(row, v, 'continuous') for row in broken):.1f}"
              f" and at most {max(sigmas(row, v, 'continuous') for row in broken):.0f} sigmas;"
              f" lowest at k = {lowest['k']:g}, the paper's optimum is {result['optimal_k']:.3f}")
    gain = result["best_gain"]
    print(f"\nbest non-integer k > 1 against the best integer, 0.5 to 40 bits a key:"
          f" {gain['lowest_ratio_to_best_integer']:.6f} of its rate"
          f" (at {gain['bits_per_key']:.2f} bits, k = {gain['k']:.3f});"
          f" k < 1 pays up to {gain['k_below_1_pays_up_to_bits_per_key']:.2f} bits a key")


def plot(result, folder):
    curve = [row for row in result["curve"] if row["k"] >= 0.75]
    k = [row["k"] for row in curve]
    figure, plane = axes("k", "false-positive rate",
                         f"Rational Bloom filter, m = {result['bits']:,}, n = {result['keys']:,}")
    plane.plot(k, [row["continuous"] for row in curve], "--", color="grey", label="continuous formula")
    plane.plot(k, [row["mixture"] for row in curve], color="black", label="mixture")
    for variant, marker in zip(VARIANTS, "ox"):
        plane.errorbar(k, [row[variant] for row in curve], [3 * row[variant + "_error"] for row in curve], fmt=marker,
                       markersize=4, label=f"measured, H_r {variant} (3 sigma)")
    plane.axvline(result["optimal_k"], color="tab:green", alpha=0.5, label="m/n ln 2")
    save(figure, folder, "rational")
