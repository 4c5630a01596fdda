#!/usr/bin/env python3
"""No function of std::filesystem ends a program: the product calls those that take a std::error_code, and steps through a folder
by increment(error). A home folder that cannot be read is an error with a message, not an exception.
    path_functions.py [--json]    exit 1: some line does otherwise
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clocks import PRODUCT, code_of, sources  # noqa: E402 (this folder must be on the path first)

CALL = re.compile(r"\b(?:std::filesystem|fs)::(\w+)(?:\s+\w+)?\(")
PURE = {"path", "perms"}  # touch no file
ERROR = re.compile(r"[a-z]\w*")


def arguments_of(text):
    """Of a call that begins behind its parenthesis, as texts; None: it goes on in another line."""
    depth, begin, found = 0, 0, []
    for at, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}" and depth > 0:
            depth -= 1
        elif letter == ")" or (letter == "," and depth == 0):
            found.append(text[begin:at].strip())
            begin = at + 1
            if letter == ")":
                return found
    return None


def is_good(name, arguments):
    if name in PURE or arguments is None:
        return name in PURE
    if name in ("exists", "is_directory", "is_regular_file", "is_symlink", "is_socket") and "status(" in arguments[0]:
        return True  # of a status that was asked for before
    return name.endswith("iterator") and arguments == [""] or len(arguments) > 1 and bool(ERROR.fullmatch(arguments[-1]))


def wrong_in(path):
    for number, line in code_of(path):
        for call in CALL.finditer(line):
            if not is_good(call[1], arguments_of(line[call.end():])):
                yield {"file": path, "line": number, "why": f"{call[1]}() throws: give it a std::error_code"}
        if re.search(r"\bfor \([^;]*: .*directory_iterator", line):
            yield {"file": path, "line": number, "why": "the step of a directory_iterator throws: use increment(error), or names_in()"}


def main():
    paths = [path for top in PRODUCT for path in sources(top)]
    wrong = [each for path in paths for each in wrong_in(path)]
    if "--json" in sys.argv:
        print(json.dumps({"files": len(paths), "wrong": wrong}))
    else:
        for each in wrong:
            print(f"{each['file']}:{each['line']}: {each['why']}")
        print(f"{len(wrong)} of {len(paths)} files' path functions may throw")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
