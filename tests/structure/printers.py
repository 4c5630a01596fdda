#!/usr/bin/env python3
"""Text leaves controlctl by one way, print() of control/ctl/line/out.h, which makes it printable. A file that writes by another
way stands below with its reason.
    printers.py     exit 1: some file writes to a terminal past it
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAST_IT = re.compile(r"\bfmt::print\(|\bf?(?:printf|puts)\(|\bfwrite\(|\bstd::(?:cout|cerr)\b")
ALLOWED = {
    "control/ctl/cmd_top.cpp": ["fmt::print("],  # moves the cursor; its text is printable_lines()
}


def main():
    found = []
    for path in sorted(glob.glob(os.path.join(ROOT, "control/ctl/**/*.cpp"), recursive=True)):
        place = os.path.relpath(path, ROOT)
        with open(path, encoding="utf8") as file:
            calls = PAST_IT.findall(file.read())
        if calls != ALLOWED.get(place, []):
            found.append(f"{place}: {', '.join(calls) or 'none'}: print by control/ctl/line/out.h")
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
