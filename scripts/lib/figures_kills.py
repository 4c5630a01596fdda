"""Figures of programs that are killed while lists change. docs/develop/figures.md says how each is measured.

WEIR_KILLS: so many instead of 500; the figures are then short of what they ask for.
"""

import os

import kills
from disk import LIBRARY
from figure import at_most
from figures_safe import in_a_process
from rig import PROGRAMS, build_release, say

KILLS = 500


def kills_while_lists_change(build, _folder):
    build_release(build, [*PROGRAMS, LIBRARY])
    return measure(build, int(os.environ.get("WEIR_KILLS", KILLS)))


def measure(build, count):
    """One seed, so that the next run is the same as far as time allows."""
    say(f"kills: {count} of them while lists change")
    found = in_a_process(kills.run, build, count)
    killed = sum(found["kills"].values())
    each = ", ".join(f"{name} {count}" for name, count in found["kills"].items())
    moments = ", ".join(f"{name} {count}" for name, count in sorted(found["moments"].items(), key=lambda one: -one[1]))
    note = ("{each} kills with seed {seed} in {seconds:.0f} s; {requests} requests, {unanswered} of them not answered, {entries} entries "
            "acknowledged; versions written: {written}; {packets} probes").format(
                each=each, written=", ".join(f"{kind} {count}" for kind, count in found["versions"].items()), **found)
    texts = "".join(f"; {text}" for text in found["wrong"][:5])
    figures = [at_most("moves.kill_lost", found["lost"], 0, "entries", f"{note}; at {moments}{texts}"),
               at_most("moves.kill_older", found["older"], 0, "kills", note)]
    if killed < KILLS:
        for figure in figures:
            figure.status = "short"
    return figures, found


MEASUREMENTS = (
    (("moves.kill_lost", "moves.kill_older"), kills_while_lists_change),
)
