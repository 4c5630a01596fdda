"""Variably-sized blocks against a multiplication."""

from reproduce_output import axes, save, table

PROGRAMS = ["variable_blocks"]
COLOURS = ("black", "tab:cyan", "tab:grey", "tab:red", "tab:orange", "tab:purple")


def report(result):
    for size in result["sizes"]:
        table(f"{size['keys']:,} keys, {size['bits']:,} bits in {size['blocks']} blocks;"
              f" m/n ln 2 = {size['optimal_k']:.2f}; the paper expects {size['continuous']:.6f}",
              ["filter", "rate", "expected", "insert ns", "stranger ns", "member ns"],
              [[row["filter"].replace("_", " "), row["rate"], row["expected"], row["insert_ns"], row["negative_ns"],
                row["positive_ns"]] for row in size["rows"]])


def plot(result, folder):
    figure, plane = axes("false-positive rate / that of the multiplication", "insert time / that of the multiplication",
                         "any number of bits: five sizes, each beside its own multiplication")
    for size, marker in zip(result["sizes"], "osv^D"):
        base = size["rows"][0]
        for row, colour in list(zip(size["rows"], COLOURS))[1:]:
            plane.plot(row["rate"] / base["rate"], row["insert_ns"] / base["insert_ns"], marker, color=colour,
                       label=row["filter"].replace("_", " ") if size is result["sizes"][0] else None)
    plane.plot(1, 1, "*", color="black", markersize=12, label="multiply")
    plane.set_xscale("log")
    save(figure, folder, "variable-blocks")
