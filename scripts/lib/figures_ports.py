"""Figures of real ports at their full rate. docs/figures.md says how each is measured."""

import statistics

from added_cycles import measure_row, medians
from figure import at_least, at_most
from port_rows import ROWS
from rig import spread

ROUNDS = 7


def added(build, row, limit):
    result = measure_row(build, ROWS[row], ROUNDS)
    values = [run["added_cycles"] for run in result["runs"]]
    note = f"{spread(values, 1)}; {medians(result)}"
    return [at_most(f"ports.added_cycles_{row}", statistics.median(values), limit, "cycles", note)], result


def added_src_1m(build, _folder):
    return added(build, "src_1m", 33)


def added_flow_1m(build, _folder):
    return added(build, "flow_1m", 60)


def added_allhit(build, _folder):
    return added(build, "allhit", 45)


def ratio_mix_src_1m(build, _folder):
    result = measure_row(build, ROWS["mix_src_1m"], ROUNDS)
    values = [run["ratio"] for run in result["runs"]]
    note = f"{spread(values)}; {medians(result)}"
    return [at_least("ports.ratio_mix_src_1m", statistics.median(values), 0.9, "ratio", note)], result


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("ports.added_cycles_src_1m",), added_src_1m),
    (("ports.ratio_mix_src_1m",), ratio_mix_src_1m),
    (("ports.added_cycles_flow_1m",), added_flow_1m),
    (("ports.added_cycles_allhit",), added_allhit),
)
