"""Figures of feeds: how many formats are read, what becomes of broken ones, how fast text is read.
docs/develop/figures.md says how each is measured."""

import json
import os
import subprocess

from figure import at_least, at_most
from session import SessionError, tail

FORMATS, PARSE_MB_S = 14, 200


def feed_figures(build, *arguments):
    done = subprocess.run([os.path.join(build, "tests/bench/feed_figures"), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SessionError(f"feed_figures ended with {done.returncode}: {tail(done.stderr)}")
    return json.loads(done.stdout)


def torture(build, folder):
    result = feed_figures(build, "torture", folder)
    failures = result["failures"]
    return [at_least("moves.formats", result["formats"], FORMATS, "formats", "rows of `controlctl formats`"),
            at_most("moves.torture_failures", len(failures), 0, "cases",
                    f"of {result['cases']}" + (f"; the first: {failures[0]}" if failures else ""))], result


def parse(build, _folder):
    result = feed_figures(build, "speed")
    return [at_least("moves.parse_mb_s", result["mb_s"], PARSE_MB_S, "MB/s",
                     f"{result['mb']} MB of plain hosts and networks, one core, {result['least']} to {result['most']}")], result


MEASUREMENTS = (
    (("moves.formats", "moves.torture_failures"), torture),
    (("moves.parse_mb_s",), parse),
)
