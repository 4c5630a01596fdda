"""Figures of programs that are killed while lists change. docs/develop/figures.md says how each is measured.

WEIR_KILLS: so many instead of 500; the figures are then short of what they ask for.
"""

import collections
import os

import kills
from disk import LIBRARY
from figure import at_most
from figures_safe import in_a_process
from rig import PROGRAMS, build_release, say

KILLS = 500
XDP_SHARE = 0.4  # of controld alone, besides


def kills_while_lists_change(build, _folder):
    build_release(build, [*PROGRAMS, LIBRARY])
    return measure(build, int(os.environ.get("WEIR_KILLS", KILLS)))


def measure(build, count):
    """The same seed each time, so that the next run is the same as far as time allows."""
    runs = {}
    for plane, xdp, share in (("data plane", False, 1), ("XDP", True, XDP_SHARE)):
        say(f"kills: {plane}: {round(count * share)} of them while lists change")
        runs[plane] = in_a_process(kills.run, build, round(count * share), 1, xdp)
    moments = collections.Counter()
    for run in runs.values():
        moments.update(run["moments"])
    note = "; ".join(tell(plane, run) for plane, run in runs.items())
    told = ", ".join(f"{name} {times}" for name, times in moments.most_common())
    texts = "".join(f"; {plane}: {text}" for plane, run in runs.items() for text in run["wrong"][:3])
    figures = [at_most("moves.kill_lost", sum(run["lost"] for run in runs.values()), 0, "entries", f"{note}; at {told}{texts}"),
               at_most("moves.kill_older", sum(run["older"] for run in runs.values()), 0, "kills", note)]
    if sum(runs["data plane"]["kills"].values()) < KILLS:
        for figure in figures:
            figure.status = "short"
    return figures, runs


def tell(plane, run):
    each = ", ".join(f"{name} {times}" for name, times in run["kills"].items())
    written = ", ".join(f"{kind} {times}" for kind, times in run["versions"].items())
    return ("{plane}: kills of {each} with seed {seed} in {seconds:.0f} s, {requests} requests, {unanswered} of them not answered, {entries} "
            "entries acknowledged, versions written: {written}, {packets} probes").format(plane=plane, each=each, written=written, **run)


MEASUREMENTS = (
    (("moves.kill_lost", "moves.kill_older"), kills_while_lists_change),
)
