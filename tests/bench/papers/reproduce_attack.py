"""A crafted key set against the hash that chooses the page."""

from reproduce_output import axes, save, table

PROGRAMS = ["page_attack"]


def report(result):
    table(f"{result['crafted']:,} crafted keys beside {result['honest']:,}, {result['pages']} pages, 12 bits a key",
          ["page hash", "keys crafted for", "ns to craft a key", "mean load", "fullest page", "sigmas", "rate there",
           "rate over all"],
          [[row["page_hash"], row["crafted_for"], row["craft_ns_per_key"], row["mean_page_keys"],
            row["fullest_page_keys"], row["fullest_sigmas"], row["rate_of_fullest_page"], row["rate"]]
           for row in result["rows"]])


def plot(result, folder):
    figure, plane = axes("false-positive rate of the fullest page", "", "crafted keys on one page")
    rows = result["rows"][::-1]
    names = [f"{row['page_hash']}\nkeys for {row['crafted_for']}" for row in rows]
    plane.barh(names, [row["rate_of_fullest_page"] for row in rows], label="1 % of the keys crafted")
    plane.tick_params(axis="y", labelsize=7)
    plane.set_xscale("log")
    save(figure, folder, "page-attack", legend="lower right")
