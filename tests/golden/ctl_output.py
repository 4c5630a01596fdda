#!/usr/bin/env python3
"""Every ctl/NAME.args is a command line of controlctl (one argument a line) that needs no controld; it must print exactly
ctl/NAME.expected: exit code, stdout, stderr.

The man page is clean roff, bash understands its completion, and docs/use/api.md has exactly the members that are described.

    ctl_output.py CONTROLCTL [--accept]      --accept writes the .expected files anew: read the difference
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent
API = FOLDER.parent.parent / "docs/use/api.md"


def output_of(program, args):
    with tempfile.TemporaryDirectory() as folder:  # where no weir.yaml is
        done = subprocess.run([program, *args], capture_output=True, text=True, timeout=60, cwd=folder,
                              env={"XDG_RUNTIME_DIR": "/run/user/1", "PATH": "/usr/bin:/bin"})
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()[-1]
    texts = [text.replace(f'"version":"{version}"', '"version":"VERSION"').replace(f"weir {version}", "weir VERSION")
             .replace("/run/user/1/weir/", "/run/weir/") for text in (done.stdout, done.stderr)]  # root's or a user's
    return f"exit {done.returncode}\n--- stdout\n{texts[0]}--- stderr\n{texts[1]}"


def complaint_of(checker, text):
    """What a program says about a text; empty: nothing, or the program is not there."""
    if not shutil.which(checker[0]):
        return ""
    done = subprocess.run(checker, input=text, capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    return said or (f"exit {done.returncode}" if done.returncode else "")


def complaints(program):
    """(what, what is wrong with it)"""

    def printed(*args):
        return subprocess.run([program, *args], capture_output=True, text=True, check=True).stdout

    man = printed("man")
    yield "man page, groff", complaint_of(["groff", "-man", "-Tutf8", "-ww", "-z"], man)
    yield "man page, mandoc", complaint_of(["mandoc", "-T", "lint", "-W", "warning"], man)
    for shell in "bash", "zsh", "fish":
        yield f"completion, {shell}", complaint_of([shell, "-n"], printed("completion", shell))
    members = printed("members")
    api = API.read_text()
    if not api.endswith("\n\n" + members):
        lines = set(members.splitlines()) ^ set(line for line in api.splitlines() if line.startswith("| "))
        yield "docs/use/api.md", "does not end with what `controlctl members` prints:\n" + "\n".join(sorted(lines))


def main():
    program, accept = str(pathlib.Path(sys.argv[1]).resolve()), "--accept" in sys.argv[2:]
    cases = sorted((FOLDER / "ctl").glob("*.args"))
    if pathlib.Path("/etc/weir/weir.yaml").exists():  # then `check` has a policy
        cases = [case for case in cases if not case.stem.startswith("check-no-config")]
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
    for what, complaint in complaints(program):
        if complaint:
            failures += 1
            print(f"FAILED {what}: {complaint}")
    print(f"{len(cases)} command lines, {failures} failures")
    return failures != 0 or not cases


if __name__ == "__main__":
    sys.exit(main())
