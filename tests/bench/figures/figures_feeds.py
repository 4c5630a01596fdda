"""Figures of feeds: how many formats are read, what becomes of broken ones, whether anything is silently wrong, how fast
text is read. docs/develop/figures.md says how each is measured."""

import functools
import json
import os
import re
import subprocess

import feed_lists
from figure import at_least, at_most
from rig import Skip
from session import ROOT, SessionError, tail

FORMATS, ALL_FORMATS, NAMED_REFUSALS = 14, 26, 20
PARSE_MB_S, PARSE_RATIO = 200, 0.9
DRAWN_DOCUMENTS, DRAWN_SEED = 1_000_000, 1


def run_json(build, program, *arguments, codes=(0,)):
    done = subprocess.run([os.path.join(build, program), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode not in codes:
        raise SessionError(f"{os.path.basename(program)} ended with {done.returncode}: {tail(done.stderr)}")
    return json.loads(done.stdout)


def feed_figures(build, *arguments):
    return run_json(build, "tests/bench/feed_figures", *arguments)


def torture(build, folder):
    result = feed_figures(build, "torture", folder)
    failures = result["failures"]
    return [at_least("moves.formats", result["formats"], FORMATS, "formats", "rows of `controlctl formats`"),
            at_most("moves.torture_failures", len(failures), 0, "cases",
                    f"of {result['cases']}" + (f"; the first: {failures[0]}" if failures else ""))], result


@functools.lru_cache(maxsize=1)  # two groups of figures are of the same runs
def speed(build):
    return feed_figures(build, "speed")


def parse(build, _folder):
    result = speed(build)
    return [at_least("moves.parse_mb_s", result["mb_s"], PARSE_MB_S, "MB/s",
                     f"{result['mb']} MB of plain hosts and networks, one core, {result['least']} to {result['most']}")], result


def parse_ratio(build, _folder):
    result = speed(build)
    return [at_least("feeds.parse_ratio", result["ratio"], PARSE_RATIO, "ratio",
                     f"median of 9 pairs, {result['ratio_least']} to {result['ratio_most']}")], result


def cases(build, _folder):
    """The cases of other authors, where they are."""
    folder = os.path.join(ROOT, "..", "shared", "cases")
    run, path = os.path.join(folder, "run"), os.path.join(folder, "feeds.yaml")
    if not os.path.exists(run) or not os.path.exists(path):
        raise Skip(f"cases: no run and feeds.yaml in {os.path.normpath(folder)}")
    done = subprocess.run([run, path, "--build", build], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    totals = re.search(r"^(\d+) right, (\d+) wrong", done.stdout, re.M)
    if totals is None:
        raise SessionError(f"cases/run ended with {done.returncode}: {tail(done.stderr)}")
    lines = done.stdout.splitlines()
    wrong = int(totals[2])
    return [at_most("feeds.cases_wrong", wrong, 0, "cases",
                    f"of {int(totals[1]) + wrong}" + (f"; the first: {lines[0][:160]}" if wrong else ""))], lines


def drawn(build, _folder):
    """Random documents whose truth is known."""
    result = run_json(build, "tests/drawn/drawn_feeds", "--documents", str(DRAWN_DOCUMENTS), "--seed", str(DRAWN_SEED), codes=(0, 1))
    kinds = result.get("kinds", {}).get("silent_wrong", [])
    note = f"in {result['documents']} random documents, seed {result['seed']}: {result['right']} right, {result['refused']} refused, " \
           f"{result['false_refusals']} of them wrongly, {result['wrong_counts']} counted too much"
    if kinds:
        note += f"; most are {kinds[0]['kind']} (drawn_feeds --only {kinds[0]['seed']})"
    figure = at_most("feeds.silent_wrong", result["silent_wrong"], 0, "documents", note)
    if result["false_refusals"] + result["wrong_counts"] > 0:
        figure.status = "short"
    return [figure], result


def tables(build, _folder):
    result = feed_figures(build, "tables")
    return [at_least("feeds.formats", result["formats"], ALL_FORMATS, "formats", "rows of `controlctl formats`"),
            at_least("feeds.named_refusals", result["structures"], NAMED_REFUSALS, "structures",
                     "texts of other tools that are refused by their names")], result


def real_lists(build, _folder):
    found = feed_lists.measure(build)
    changed, alarms = feed_lists.differences(found), feed_lists.false_alarms(found)
    return [at_most("feeds.real_lists_changed", len(changed), 0, "lists",
                    f"of {len(found)}, {len(feed_lists.EXPLAINED)} changed with a reason" + (f"; {changed[0]}" if changed else "")),
            at_most("feeds.false_alarms", len(alarms), 0, "lists",
                    f"of {len(found)}, {len(feed_lists.DESERVED)} deserve one warning"
                    + (f"; {alarms[0][:200]}" if alarms else ""))], found


MEASUREMENTS = (
    (("moves.formats", "moves.torture_failures"), torture),
    (("moves.parse_mb_s",), parse),
    (("feeds.cases_wrong",), cases),
    (("feeds.silent_wrong",), drawn),
    (("feeds.formats", "feeds.named_refusals"), tables),
    (("feeds.real_lists_changed", "feeds.false_alarms"), real_lists),
    (("feeds.parse_ratio",), parse_ratio),
)
