"""Draws the dashboard for Grafana, which Debian does not have: each panel of configs/monitoring/weir-dashboard.json, from what a real
Prometheus answers about a loaded weir. To look at; kept out of the repository.
    dashboard_view.py BUILD OUT.png [--seconds N]
Needs Prometheus and python3-matplotlib (the system's python3)."""

import argparse
import sys
import time

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402 (after the backend is chosen)

from dashboard import Prometheus, panels_of, plain  # noqa: E402
from rack_metrics import start_loaded  # noqa: E402
from session import Session  # noqa: E402

COLUMNS = 3


def name_of(series, legend):
    for label, value in series["metric"].items():
        legend = legend.replace("{{" + label + "}}", value.rpartition("/")[2])
    return legend


def draw(axes, panel, prometheus, seconds):
    axes.set_title(panel["title"], fontsize=9)
    axes.tick_params(labelsize=7)
    if panel["type"] == "stat":
        texts = [f"{name_of(series, target['legendFormat'])}: {float(series['value'][1]):.6g}" for target in panel["targets"]
                 for series in prometheus.ask(plain(target["expr"]))]
        axes.axis("off")
        axes.text(0.5, 0.5, "\n".join(texts), ha="center", va="center", fontsize=11)
        return
    for target in panel["targets"]:
        for series in prometheus.ask_range(plain(target["expr"]), seconds):
            begin = float(series["values"][-1][0])
            axes.plot([float(at) - begin for at, _ in series["values"]], [float(value) for _, value in series["values"]],
                      label=name_of(series, target["legendFormat"]))
    axes.set_xlabel(f"s; {panel['fieldConfig']['defaults']['unit']}", fontsize=7)
    axes.set_ylim(bottom=0)
    if axes.lines:
        axes.legend(fontsize=6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=int, default=30, help="how long it is watched")
    arguments = parser.parse_args()
    with Session(arguments.build) as session:
        address = start_loaded(session)
        with Prometheus(session.path("prometheus"), address) as prometheus:
            time.sleep(arguments.seconds / 2)
            session.controlctl("reload")
            time.sleep(arguments.seconds / 2)
            panels = panels_of()
            rows = -(-len(panels) // COLUMNS)
            figure, all_axes = pyplot.subplots(rows, COLUMNS, figsize=(6 * COLUMNS, 2.6 * rows), constrained_layout=True)
            for axes in all_axes.flat:
                axes.axis("off")
            for axes, panel in zip(all_axes.flat, panels):
                axes.axis("on")
                draw(axes, panel, prometheus, arguments.seconds)
            figure.savefig(arguments.out, dpi=80)
    print(f"{len(panels)} panels: {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
