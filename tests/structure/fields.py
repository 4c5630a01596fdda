#!/usr/bin/env python3
"""A match field has one row, and few other places.

The fields are the rows of filter/format/fields.h; how they are written is said in control/policy/model/fields.cpp. Beside these
two and the frame parsers at most four files of the product may name a field. Protocol and ports are more than that: keys
are made of them, so they are left out. What translates between weir's fields and those of another protocol is left out,
too: a field that the other side does not know is named there nowhere.
    fields.py [--json]    exit 1: some field is named in too many files
"""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PRODUCT = ["common", "filter", "bpf", "control", "dataplane"]
TABLE = {"filter/format/fields.h", "control/policy/model/fields.cpp"}
PARSERS = {"filter/frame/frame.cpp", "bpf/program/frame.bpf.h"}
TRANSLATORS = ("control/sources/flowspec/",)
DECLARED_IN = "filter/format/packet.h"
IN_KEYS = {"protocol", "sport", "dport"}
ALLOWED = 4
# Objects that hold a field, as the product calls them; `length` and `fragment` are words of the language, too.
HOLDERS = r"(?:\w*packet|headers?|flow_?|residual|condition|sample)"


def fields():
    """[(name, NAME)] of the table."""
    text = open(os.path.join(ROOT, "filter/format/fields.h"), encoding="utf8").read()
    return re.findall(r"^\s+FIELD\((\w+), (\w+),", text, re.M)


def sources():
    for part in PRODUCT:
        for folder, _, names in os.walk(os.path.join(ROOT, part)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if name.endswith((".h", ".cpp", ".c")) and not path.startswith(TRANSLATORS):
                    yield path, open(os.path.join(ROOT, path), encoding="utf8").read()


def files_that_name(name, upper, texts):
    """Those that use its member, its bit, its number or its flag, and the one that declares it in a packet."""
    named = re.compile(rf"FIELD\({name},|Flow::{name}\b|WEIR_ASKS_{upper}\b|WEIR_FIELD_{upper}\b|WEIR_HAS_{upper}\b"
                       rf"|\b{HOLDERS}(?:\.|->){name}\b"
                       + ("" if name in ("length", "fragment") else rf"|\b{name}\b"), re.M)
    return {path for path, text in texts if path == DECLARED_IN or named.search(text)}


def main():
    texts = list(sources())
    counted, wrong = {}, []
    for name, upper in fields():
        if name in IN_KEYS:
            continue
        files = files_that_name(name, upper, texts)
        beside = sorted(files - TABLE - PARSERS)
        counted[name] = beside
        missing = (TABLE | PARSERS) - files
        if missing:
            wrong.append(f"{name}: {', '.join(sorted(missing))} should name it")
        if len(beside) > ALLOWED:
            wrong.append(f"{name}: named in {len(beside)} files beside table and parsers: {', '.join(beside)}")
    if not counted:
        wrong.append("no row found in filter/format/fields.h")
    if "--json" in sys.argv[1:]:
        print(json.dumps({"files": counted, "wrong": wrong}))
    else:
        for line in wrong:
            print(line)
        for name, beside in counted.items():
            print(f"{name}: {len(beside)} files beside table and parsers ({', '.join(beside)})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
