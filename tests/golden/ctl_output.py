#!/usr/bin/env python3
"""Every ctl/NAME.args is a command line of controlctl (one argument a line) that needs no controld; it must print exactly
ctl/NAME.expected: exit code, stdout, stderr.

    ctl_output.py CONTROLCTL [--accept]      --accept writes the .expected files anew: read the difference
"""

import pathlib
import re
import subprocess
import sys


def output_of(program, args):
    done = subprocess.run([program, *args], capture_output=True, text=True, timeout=60)
    stdout = re.sub(r'"version":"[^"]*"', '"version":"VERSION"', done.stdout)
    return f"exit {done.returncode}\n--- stdout\n{stdout}--- stderr\n{done.stderr}"


def main():
    program, accept = sys.argv[1], "--accept" in sys.argv[2:]
    cases = sorted((pathlib.Path(__file__).parent / "ctl").glob("*.args"))
    failures = 0
    for case in cases:
        expected = case.with_suffix(".expected")
        got = output_of(program, case.read_text().splitlines())
        if accept:
            expected.write_text(got)
        wanted = expected.read_text() if expected.exists() else "nothing: there is no such file\n"
        if got != wanted:
            failures += 1
            print(f"FAILED {case.name}\n=== expected\n{wanted}=== got\n{got}")
    print(f"{len(cases)} command lines, {failures} failures")
    return failures != 0 or not cases


if __name__ == "__main__":
    sys.exit(main())
