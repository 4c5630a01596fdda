"""Tables on stdout, plots as SVG and PNG."""

import os

from rig import say


def table(title, columns, rows):
    """rows: one list a row. Numbers are rounded to what a reader can use."""
    cells = [columns] + [[text(value) for value in row] for row in rows]
    widths = [max(len(row[c]) for row in cells) for c in range(len(columns))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip())


def text(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def plots_wanted():
    try:
        import matplotlib
    except ImportError:
        say("reproduce: no plots: python3-matplotlib is not installed (scripts/setup bench)")
        return False
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "weir"  # the same figures give the same file
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    return True


def axes(x, y, title):
    """(figure, axes) with their labels."""
    import matplotlib.pyplot

    figure, plane = matplotlib.pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    plane.set(xlabel=x, ylabel=y, title=title)
    plane.grid(alpha=0.3)
    return figure, plane


def save(figure, folder, name, legend="best"):
    """legend: its place in the axes, or "beside" them."""
    import matplotlib.pyplot

    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1)} if legend == "beside" else {"loc": legend}
    figure.axes[0].legend(fontsize="small", **place)
    figure.savefig(os.path.join(folder, name + ".svg"), metadata={"Date": None})
    figure.savefig(os.path.join(folder, name + ".png"), dpi=120)
    matplotlib.pyplot.close(figure)
