"""Draws the dashboard for Grafana, which Debian does not have: each panel of configs/monitoring/weir-dashboard.json, from what a real
Prometheus answers about a loaded weir. To look at; kept out of the repository. scripts/screenshots does it, too.
    dashboard_view.py BUILD OUT.png [--seconds N]
Needs Prometheus (scripts/setup test) and python3-matplotlib (scripts/setup bench)."""

import argparse
import os
import shutil
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from dashboard import Prometheus, panels_of, plain
from pace import hold
from rack_metrics import start_loaded
from session import Session, SessionError, fail

COLUMNS = 3


def name_of(series, legend):
    for label, value in series["metric"].items():
        legend = legend.replace("{{" + label + "}}", value.rpartition("/")[2] if label == "target" else value)
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
            end = float(series["values"][-1][0])
            axes.plot([float(at) - end for at, _ in series["values"]], [float(value) for _, value in series["values"]],
                      label=name_of(series, target["legendFormat"]))
    axes.set_xlabel(f"s; {panel['fieldConfig']['defaults']['unit']}", fontsize=7)
    axes.set_ylim(bottom=0)
    if axes.lines:
        axes.legend(fontsize=6)


def picture(build, out, seconds):
    """Draws all panels into the file; how many they are."""
    if not shutil.which("prometheus"):
        raise SessionError("prometheus is missing: scripts/setup test installs it")
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
        matplotlib.use("Agg")
        from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise SessionError("python3-matplotlib is missing: scripts/setup bench installs it, for /usr/bin/python3") from None
    with Session(build) as session:
        address = start_loaded(session)
        with Prometheus(session.path("prometheus"), address) as prometheus:
            hold(seconds / 2)
            session.controlctl("reload")
            hold(seconds / 2)
            panels = panels_of()
            rows = -(-len(panels) // COLUMNS)
            figure, all_axes = pyplot.subplots(rows, COLUMNS, figsize=(6 * COLUMNS, 2.6 * rows), constrained_layout=True)
            for axes in all_axes.flat:
                axes.axis("off")
            for axes, panel in zip(all_axes.flat, panels):
                axes.axis("on")
                draw(axes, panel, prometheus, seconds)
            figure.savefig(out, dpi=80)
    return len(panels)


def pictures(build, folder, seconds=40):
    """For scripts/screenshots."""
    out = os.path.join(folder, "dashboard.png")
    picture(build, out, seconds)
    print(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=int, default=40, help="how long it is watched")
    arguments = parser.parse_args()
    try:
        print(f"{picture(arguments.build, arguments.out, arguments.seconds)} panels: {arguments.out}")
    except SessionError as error:
        fail("dashboard_view", error, 1)


if __name__ == "__main__":
    sys.exit(main())
