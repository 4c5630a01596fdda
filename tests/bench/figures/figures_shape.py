"""Figures of the control plane's shape: lines, files, members of the largest class, what its queue does with random orders,
and whether it became slower. docs/develop/figures.md says how each is measured."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

from figure import at_least, at_most, reported
from rig import build_release, say
from session import ROOT, SessionError, tail

NEEDS_BUILD = False
BEFORE = os.environ.get("WEIR_BEFORE", "9b3e467")  # the last commit before the rooms of control/
SCHEDULES = int(os.environ.get("WEIR_SCHEDULES", 100_000))
ROUNDS = 7
PRODUCT_BUILD_S = 240
ENTRY_FORMS = 7


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if done.returncode != 0:
        raise SessionError(tail(done.stdout))
    return done.stdout


def counted(commit):
    """(lines, files) of the C++ of control/ at a commit."""
    files = [path for path in run(["git", "-C", ROOT, "ls-tree", "-r", "--name-only", commit, "control"]).split() if path.endswith((".cpp", ".h"))]
    return sum(run(["git", "-C", ROOT, "show", f"{commit}:{path}"]).count("\n") for path in files), len(files)


def size(_build, _folder):
    (lines, files), before = counted("HEAD"), counted(BEFORE)
    return [reported("shape.control_lines", lines, "lines", f"{before[0]} at {BEFORE}"),
            reported("shape.control_files", files, "files", f"{before[1]} at {BEFORE}")], {"before": before}


def members_of(text):
    """Members of `class Daemon`: declarations of names that end in _."""
    of_class = text[text.index("\nclass Daemon {"):]
    return re.findall(r"^  [^\s/][^()]*?\b(\w+_)(?: = [^;]*|\{[^;]*\})?;", of_class[:of_class.index("\n};")], re.M)


def daemon_members(_build, _folder):
    path = "control/daemon/daemon.h"
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        names = members_of(file.read())
    before = members_of(run(["git", "-C", ROOT, "show", f"{BEFORE}:{path}"]))
    return [reported("shape.daemon_members", len(names), "members", f"{len(before)} at {BEFORE}")], {"names": names, "before": before}


def includes_against(_build, _folder):
    result = json.loads(subprocess.run([sys.executable, os.path.join(ROOT, "tests/structure/includes.py"), "--json"], stdout=subprocess.PIPE,
                                       text=True).stdout)
    return [at_most("shape.includes_against", result["against"], 0, "includes", f"{result['files']} files in {result['folders']} folders")], result


def forms_of_an_entry(text):
    """Names of the forms in the table of docs/develop/walks.md."""
    return re.findall(r"^\| ([^|]+) \| `[^|`]+` \| `[^|`]+` \| `[^|`]+` \| `[^|`]+` \|$", text, re.M)


def entry_forms(build, _folder):
    build_release(build)
    program = "tests/unit/control/compile/compile-tests"
    run(["ninja", "-C", build, program])
    run([os.path.join(build, program), "an entry has the forms that docs/develop/walks.md names*"], cwd=ROOT)
    with open(os.path.join(ROOT, "docs/develop/walks.md"), encoding="utf-8") as file:
        names = forms_of_an_entry(file.read())
    return [at_most("shape.entry_forms", len(names), ENTRY_FORMS, "forms", ", ".join(names))], {"names": names}


def schedules(build, _folder):
    build_release(build)
    program = "tests/unit/control/daemon/test-intents"
    run(["ninja", "-C", build, program])
    seed = int(time.time())
    done = subprocess.run([os.path.join(build, program), "--schedules", str(SCHEDULES), "--seed", str(seed)], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SessionError(tail(done.stderr))
    found = json.loads(done.stdout)
    note = f"{found['asked']} orders, {found['published']} publications, from seed {seed} on"
    return [at_least("shape.schedules", found["schedules"], 100_000, "schedules", note),
            at_most("shape.schedule_failures", found["failures"], 0, "schedules", done.stderr.split("\n")[0])], found


def product_build(_build, folder):
    say("shape: building the product from nothing, without a cache")
    clone = os.path.join(folder, "product")
    shutil.rmtree(clone, ignore_errors=True)
    run(["git", "clone", "-q", ROOT, clone])
    environment = dict(os.environ, CCACHE_DISABLE="1")
    begin = time.monotonic()
    run(["meson", "setup", "build", "-Dtests=disabled"], cwd=clone, env=environment)
    run(["ninja", "-C", "build", "product"], cwd=clone, env=environment)
    return [at_most("shape.product_build_s", round(time.monotonic() - begin), PRODUCT_BUILD_S, "s", f"{os.cpu_count()} processors")], None


def ratios(build, folder):
    path = os.path.join(folder, "compare.json")
    run([sys.executable, os.path.join(ROOT, "scripts/compare"), BEFORE, "--control", "--rounds", str(ROUNDS), "--build", build, "--json", path])
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    before = next(values for name, values in found.items() if name != "now")

    def ratio(name, figure):
        of_rounds = sorted(now / then for now, then in zip(found["now"][figure], before[figure]))
        return at_most(name, round(of_rounds[len(of_rounds) // 2], 3), 1.05, "of before", f"{figure}, to {BEFORE}, median of {len(of_rounds)}")
    return [ratio("shape.reload_ratio", "reload_changed_ms"), ratio("shape.add_ratio", "add_ms"), ratio("shape.start_10m_ratio", "start_10m_s"),
            ratio("shape.memory_ratio", "controld_10m_mib")], found


MEASUREMENTS = (
    (("shape.control_lines", "shape.control_files"), size),
    (("shape.daemon_members",), daemon_members),
    (("shape.includes_against",), includes_against),
    (("shape.entry_forms",), entry_forms),
    (("shape.schedules", "shape.schedule_failures"), schedules),
    (("shape.product_build_s",), product_build),
    (("shape.reload_ratio", "shape.add_ratio", "shape.start_10m_ratio", "shape.memory_ratio"), ratios),
)
