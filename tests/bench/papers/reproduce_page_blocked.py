"""Zawierucha's page-blocked Bloom filter: our figures beside the published ones."""

from reproduce_output import axes, save, table
from reproduce_published import AOL, AOL_PER_SECOND, INSERT_SECONDS, INSERT_SLOPE, RANDOM_KEYS

PROGRAMS = ["page_blocked"]
LAYOUTS = ("standard", "page_blocked")
PAGES = ("4K", "2M")


def slope(points):
    """Least squares through (millions of keys, seconds), with a constant, as the paper fits."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    return (sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points))


def insert_points(result, pages, variant):
    return [(row["million_keys"], row[variant + "_s"]) for row in result["insert"]
            if row["pages"] == pages and variant + "_s" in row]


def report(result):
    table("distinct pages of one operation (k = 7)",
          ["pages", "formula", "standard", "by double hashing", "page-blocked"],
          [[row["pages"], row["expected"], row["standard"], row["standard_double_hashing"], row["page_blocked"]]
           for row in result["distinct_pages"]])
    faults = result["page_faults"]
    print(f"\npage faults while {faults['keys']:,} keys go into untouched memory of {faults['pages']} pages:"
          f" standard {faults['standard']}, page-blocked {faults['page_blocked']}")
    table("a chain of loads, one line in each page: ns a load", ["pages", *PAGES],
          [[row["pages"], *(row[pages + "_ns"] for pages in PAGES)] for row in result["chain"]])

    rows = []
    for form, suffix in (("one key at a time", ""), ("batch, prefetched", "_prefetched"),
                         ("a hash for each probe", "_hashing")):
        for pages in PAGES:
            flat, paged = (insert_points(result, pages, layout + suffix) for layout in LAYOUTS)
            if len(flat) > 1:
                rows.append([form, pages, f"1-{flat[-1][0]}", slope(flat), slope(paged), slope(paged) / slope(flat)])
    rows.append(["published", "?", "1-110", INSERT_SLOPE["standard"], INSERT_SLOPE["page_blocked"],
                 INSERT_SLOPE["page_blocked"] / INSERT_SLOPE["standard"]])
    table("inserting: slope, seconds per million keys, 10 bits a key",
          ["form", "pages", "millions", "standard", "page-blocked", "ratio"], rows)
    table("inserting: seconds (plain form; published: first run)",
          ["millions", "4K standard", "4K paged", "2M standard", "2M paged", "published standard", "paged"],
          [[million, *(dict(insert_points(result, pages, layout))[million] for pages in PAGES for layout in LAYOUTS),
            *INSERT_SECONDS.get(million, (None, None))] for million, _ in insert_points(result, "4K", "standard")])

    table("false-positive rate, 150,000 keys, k = 7; published/formula: random keys, AOL",
          ["bits/key", "formula", "standard", "page formula", "page-blocked", "paper's random", "/formula",
           "paper's AOL", "/formula"],
          [rate_row(row) for row in result["rates"] if row["bits_per_key"] <= 12 or row["bits_per_key"] % 4 == 0])

    rows = []
    for form, suffix in (("early exit", ""), ("phased", "_phased")):
        for pages in PAGES:
            rates = [mean_per_second(result, pages, layout + suffix) for layout in LAYOUTS]
            rows.append([form, pages, *rates, rates[1] / rates[0]])
    published = list(AOL_PER_SECOND.values())
    rows.append(["published", "?", *(value / 1e6 for value in published), published[1] / published[0]])
    table("queries, millions per second, mean over 1 to 30 bits a key, 700,000 keys",
          ["form", "pages", "standard", "page-blocked", "ratio"], rows)

    forms = ["keys_alone", *(layout + form for form in ("", "_prefetched", "_phased") for layout in LAYOUTS), "line8",
             "line8_ahead"]
    table("lookup, ns per key, 12 bits a key (making the key is in every number)",
          ["pages", "M keys", "keys", *forms],
          [[row["pages"], row["million_keys"], "members" if row["members"] else "strangers",
            *(row[form + "_ns"] for form in forms)] for row in result["forms"]])


def rate_row(row):
    bits, formula = row["bits_per_key"], row["standard_formula"]
    cells = [bits, formula, row["standard"], row["page_formula"], row["page_blocked"]]
    for published in (RANDOM_KEYS, AOL):
        value = published.get(bits, (None,))[0]
        cells += [value, value and value / formula]
    return cells


def mean_per_second(result, pages, variant):
    """Millions per second."""
    rows = [row for row in result["throughput"] if row["pages"] == pages]
    return sum(1e3 / row[variant + "_ns"] for row in rows) / len(rows)


def plot(result, folder):
    figure, plane = axes("millions of keys", "seconds", "inserting, 10 bits a key, k = 7")
    for pages, style in zip(PAGES, ("-", "--")):
        for layout, colour in zip(LAYOUTS, ("tab:red", "tab:blue")):
            for suffix, marker in (("", "o"), ("_prefetched", "^")):
                points = insert_points(result, pages, layout + suffix)
                plane.plot(*zip(*points), style, color=colour, marker=marker,
                           label=f"{layout.replace('_', '-')}{suffix.replace('_', ', ')}, {pages} pages")
    save(figure, folder, "page-blocked-insert")

    figure, plane = axes("bits per key", "false-positive rate", "150,000 keys, k = 7")
    rows = result["rates"]
    bits = [row["bits_per_key"] for row in rows]
    plane.plot(bits, [row["standard_formula"] for row in rows], color="black", label="formula")
    plane.plot(bits, [row["standard"] for row in rows], "o", markerfacecolor="none", label="standard, measured")
    plane.plot(bits, [row["page_blocked"] for row in rows], "s", markerfacecolor="none", label="page-blocked, measured")
    plane.plot(list(RANDOM_KEYS), [rates[0] for rates in RANDOM_KEYS.values()], "x", label="paper, random keys")
    plane.plot(list(AOL), [rates[0] for rates in AOL.values()], "+", label="paper, AOL")
    plane.set_yscale("log")
    save(figure, folder, "page-blocked-rate")

    figure, plane = axes("bits per key", "million queries per second", "700,000 keys, strangers")
    for pages, style in zip(PAGES, ("-", "--")):
        rows = [row for row in result["throughput"] if row["pages"] == pages]
        for layout, colour in zip(LAYOUTS, ("tab:red", "tab:blue")):
            for suffix, marker in (("", "o"), ("_phased", "^")):
                plane.plot([row["bits_per_key"] for row in rows], [1e3 / row[f"{layout}{suffix}_ns"] for row in rows],
                           style, color=colour, marker=marker,
                           label=f"{layout.replace('_', '-')}{suffix.replace('_', ', ')}, {pages} pages")
    save(figure, folder, "page-blocked-throughput")
