#!/usr/bin/env python3
"""The tables that name places of the sources follow them: deliberate errors (tests/mutations) can be made, each in one place, and
the parsers of the fuzz targets (tests/rig/run/fuzzing.py) are files that are there.
    tables.py     exit 1: something is named that is not there
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests/rig"), os.path.join(ROOT, "tests/mutations")]
import rooms  # noqa: E402,F401
from fuzzing import TARGETS, parser_files  # noqa: E402 (path first)
from mutations import MUTATIONS  # noqa: E402
from session import SessionError  # noqa: E402


def times(file, text):
    try:
        with open(os.path.join(ROOT, file), encoding="utf-8") as opened:
            return opened.read().count(text)
    except FileNotFoundError:
        return 0


def main():
    wrong = [f"tests/mutations/mutations.py, row {number}: {file} holds {times(file, before)} times, not once: {before}"
             for number, (file, before, _, _) in enumerate(MUTATIONS, 1) if times(file, before) != 1]
    for name in TARGETS:
        try:
            parser_files(name)
        except SessionError as error:
            wrong.append(str(error))
    for line in wrong:
        print(line)
    print(f"{len(MUTATIONS)} deliberate errors, {len(TARGETS)} fuzz targets: {len(wrong)} of them wrong")
    return 1 if wrong else 0


sys.exit(main())
