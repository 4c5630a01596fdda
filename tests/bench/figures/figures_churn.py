"""Figures of a list that churns under traffic, on both planes. docs/develop/figures.md says how each is measured.

WEIR_CHURN_SECONDS: so many seconds of churn on each plane instead of ten minutes; the figures are then short of what they ask for.
"""

import os
import statistics

import churn
from figure import at_least, at_most, reported
from figures_safe import in_a_process
from rig import PROGRAMS, build_release, say, spread

ENTRIES, CHURN_SECONDS = 1_000_000, 600
ENFORCED_MS, RATE_RATIO = 200, 0.97
PLANES = {"data plane": False, "XDP": True}


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def rate_ratio(run):
    return statistics.median(run["rate"]["churn"]) / statistics.median(run["rate"]["quiet"])


def memory_ratio(run):
    """Of the program that grew most: at the end, to the end of the first quiet stretch."""
    first, *_, last = run["kib"] if len(run["kib"]) > 1 else run["kib"] * 2
    return max(last[name] / first[name] for name in first)


def of_planes(runs, tell):
    return "; ".join(f"{plane}: {tell(run)}" for plane, run in runs.items())


def tell_rates(run):
    rates = {name: statistics.median(values) / 1e6 for name, values in run["rate"].items()}
    return f"{rate_ratio(run):.3f}, median Mpps of {len(run['rate']['churn'])} stretches {rates['churn']:.2f}, quiet {rates['quiet']:.2f}"


def tell_memory(run):
    return ", ".join(f"{name} {run['kib'][0][name] / 1024:.0f} and {run['kib'][-1][name] / 1024:.0f} MiB" for name in run["kib"][0])


def churn_under_traffic(build, _folder):
    seconds = int(os.environ.get("WEIR_CHURN_SECONDS", CHURN_SECONDS))
    build_release(build, (*PROGRAMS, "tests/xdp/xdp_traffic"))
    return measure(build, seconds)


def measure(build, seconds, entries=ENTRIES):
    runs = {}
    for plane, xdp in PLANES.items():
        say(f"churn: {plane}: {entries} entries churn for {seconds} s")
        runs[plane] = in_a_process(churn.run, build, entries, seconds, xdp)
    enforced = {plane: percentile(run["enforced_ms"], 0.99) for plane, run in runs.items()}
    wrong_texts = "".join(f"; {text}" for run in runs.values() for text in run["texts"][:3])
    found = [
        at_most("moves.enforced_ms_p99", max(enforced.values()), ENFORCED_MS, "ms",
                of_planes(runs, lambda run: f"{enforced[run['plane']]:.0f}, {run['changes']} changes, {spread(run['enforced_ms'], 0)}")),
        at_most("moves.churn_lost", sum(run["lost"] for run in runs.values()), 0, "packets",
                of_planes(runs, lambda run: f"{run['lost']} of {run['probes']} probes and {run['packets']} packets beside them")),
        at_most("moves.churn_wrong", sum(run["wrong"] for run in runs.values()), 0, "packets",
                of_planes(runs, lambda run: f"{run['wrong']}, probes of " + ", ".join(
                    f"{kind} {count}" for kind, count in run["of_kind"].items())) + wrong_texts),
        at_least("moves.churn_rate_ratio", min(rate_ratio(run) for run in runs.values()), RATE_RATIO, "ratio", of_planes(runs, tell_rates)),
        reported("moves.churn_memory_ratio", max(memory_ratio(run) for run in runs.values()), "ratio",
                 of_planes(runs, tell_memory) + ", after the first quiet stretch and at the end")]
    if seconds < CHURN_SECONDS:
        for figure in found[:-1]:
            figure.status = "short"
    return found, runs


MEASUREMENTS = (
    (("moves.enforced_ms_p99", "moves.churn_lost", "moves.churn_wrong", "moves.churn_rate_ratio", "moves.churn_memory_ratio"),
     churn_under_traffic),
)
