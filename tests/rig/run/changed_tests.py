"""Which tests a change asks for: `scripts/test --changed`."""

import contextlib
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PRODUCT, UNIT = ("common", "filter", "bpf", "control", "dataplane"), os.path.join("tests", "unit")


def changed_since(commit):
    """Files that differ from those of this commit, or are new."""
    told = [subprocess.run(["git", "-C", ROOT, *command], capture_output=True, text=True, check=True).stdout.splitlines()
            for command in (["diff", "--name-only", commit], ["ls-files", "--others", "--exclude-standard"])]
    return {os.path.join(ROOT, path) for path in sum(told, [])}


def sources_of(target):
    """Sources of a target of Meson's, also those that a unity build joins in one file."""
    for part in target["target_sources"]:
        yield from part.get("sources", ())
        for joined in part.get("generated_sources", ()):
            with contextlib.suppress(OSError), open(joined, encoding="utf-8", errors="replace") as file:
                yield from (os.path.normpath(line.split("<")[1].rstrip(">\n")) for line in file if line.startswith("#include<"))


def folder_of(file):
    return os.path.dirname(os.path.relpath(file, ROOT))


def folder_of_tests(file, folders):
    """The folder of the file's unit tests: control/base/loop/loop.h has them in tests/unit/control/base/loop. None: there is none."""
    folder = folder_of(file)
    if folder.split(os.sep)[0] in PRODUCT:
        folder = os.path.join(UNIT, folder)
    while folder.startswith(UNIT + os.sep):
        if folder in folders:
            return folder
        folder = os.path.dirname(folder)
    return None


def of_changed(build, tests, commit):
    """Tests of which a file has changed, and unit tests of the folders in which another file has."""
    changed = changed_since(commit)
    told = subprocess.run(["meson", "introspect", "--targets", build], capture_output=True, text=True, check=True)
    sources = {name: set(sources_of(target)) for target in json.loads(told.stdout) for name in target["filename"]}
    files_of = [(test, set().union(*({word} | sources.get(word, set()) for word in map(os.path.abspath, test["cmd"])))) for test in tests]
    own = set().union(*(files for _, files in files_of))
    unit = {folder_of(file) for test, files in files_of if test["of_suite"] == "unit" for file in files}
    folders = {folder_of_tests(file, unit) for file in changed - own}
    return [test for test, files in files_of if files & changed
            or (test["of_suite"] == "unit" and any(folder_of(file) in folders for file in files))]
