"""The fuzz targets: how each one is built and run, and how much of its parser a corpus reaches. Standard library only.

A target's inputs: seeds that the tests write (corpus-seed/NAME of the build) and what fuzzing found (corpus/NAME of the
build with the sanitizers, kept from run to run).
"""

import fcntl
import glob
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass

from rig import say
from session import ROOT, SessionError, tail

SANITIZED = ("-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Db_lto=false", "-Doptimization=1",
             "-Dcpp_args=-fsanitize=fuzzer-no-link -gline-tables-only")
COVERED = ("-Dfuzz=true", "-Db_lto=false", "-Doptimization=1",
           "-Dcpp_args=-fprofile-instr-generate -fcoverage-mapping", "-Dcpp_link_args=-fprofile-instr-generate")
HANG_SECONDS = 20          # one input
PROGRESS_SECONDS = 30
NOT_ENTROPIC = ("-entropic=0",)  # choosing the next input by rarity takes 40 % of the time where inputs reach much code
EXECUTIONS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
PULSE = re.compile(r"^#(\d+)\t.*?corp: (\d+)/.*exec/s: (\d+)", re.M)


@dataclass(frozen=True)
class Target:
    """parser: globs of the files that are its parser's own. In those of `only`, the functions named alone count; those
    of `without` do not: only the daemons' I/O and the command line reach them."""

    longest: int      # bytes of an input that fuzzing makes; seeds may be longer
    parser: tuple
    dictionary: str = ""
    only: tuple = ()
    without: tuple = ()
    options: tuple = ()  # of libFuzzer


TARGETS = {
    "bgp": Target(512, ("control/sources/flowspec/message.cpp", "control/sources/flowspec/session.cpp", "control/sources/flowspec/rules.cpp"),
                  without=("announce", "encode_announcements", "encode_withdrawals", "encode_end_of_rib", "encode_updates", "reach_head", "unreach_head",
                           "put_attribute", "encode_update", "tick", "next_tick", "shut_down", "lose", "retry", "clear", "take_refusals")),
    "book": Target(2048, ("control/lists/book/disk.cpp", "control/lists/book/stored.cpp"), without=("write_book", "part_holding")),
    "entry": Target(256, ("control/policy/read/entry_line.cpp",), "plain.dict", without=("entry_line_of_map",)),
    "crowdsec": Target(1024, ("control/sources/crowdsec/decisions.cpp", "control/sources/crowdsec/ledger.cpp",
                              "control/sources/followed/followed_list.cpp"),
                       "crowdsec.dict", without=("refused", "retry", "set_phase"), options=NOT_ENTROPIC),
    "drawn_feeds": Target(1024, ("control/policy/feeds/csv_layout.cpp", "control/policy/feeds/csv_text.cpp"), options=NOT_ENTROPIC),
    "events": Target(1024, ("common/yaml/events.cpp", "common/yaml/yaml.cpp"), "policy.dict", without=("read_document",),
                     options=NOT_ENTROPIC),
    "feed_line": Target(512, ("control/enforce/past/feed_line.cpp",), "plain.dict", without=("read", "make_index", "names_in")),
    "etcd": Target(1024, ("control/sources/etcd/messages.cpp",), without=("text_of", "grant_text", "lease_text",
                                                                                            "authenticate_text", "watch_text")),
    "fetch": Target(1024, ("control/sources/fetch/state.cpp",), without=("next_after_success", "next_after_failure", "next_of")),
    "fleet": Target(1024, ("control/sources/fleet/head.cpp", "control/sources/fleet/revision.cpp", "control/sources/fleet/report.cpp",
                           "control/sources/fleet/channel.cpp", "control/sources/fleet/names.cpp"),
                    without=("read_ask", "read_told")),
    "filter": Target(512, ("control/policy/read/frame_filter.cpp",), without=("compile",)),
    "frame": Target(1024, ("filter/frame/*.cpp",)),
    "frame_text": Target(2048, ("control/tell/answer/walk.cpp",), options=NOT_ENTROPIC),
    "feed": Target(256, ("control/policy/feeds/entry_text.cpp", "control/policy/feeds/format.cpp",
                         "control/policy/feeds/plain.cpp", "control/policy/read/feed_guard.cpp"),
                   "plain.dict"),
    "flowspec": Target(128, ("control/sources/flowspec/nlri.cpp", "control/sources/flowspec/entries.cpp")),
    "formats": Target(512, ("control/policy/feeds/*.cpp", "control/policy/feeds/json_text.h"), "formats.dict",
                      without=("answer_one", "begin_reading", "receive", "wait_for_last", "finish")),
    "listen": Target(64, ("control/policy/model/listen.cpp", "control/tell/web/host.cpp")),
    "printable": Target(256, ("common/printable.cpp", "common/diagnostic.cpp", "control/tell/page/html.cpp")),
    "policy": Target(1024, ("control/policy/read/policy*.cpp",
                            "control/policy/read/target_spec.cpp", "control/policy/model/field_names.cpp",
                            "control/policy/model/time_text.cpp", "common/yaml/yaml*.cpp"), "policy.dict",
                     without=("read_document", "read_policy", "read_places", "read_feed", "read_feeds",
                              "check_capture_filter", "dataplane_of", "xdp_of", "target_of", "targets_of"),
                     options=NOT_ENTROPIC),
    "snapshot": Target(512, ("filter/read/validate.cpp", "filter/read/view.cpp"), only=("filter/read/view.cpp", "open"),
                       options=NOT_ENTROPIC),
    "steering": Target(512, ("control/policy/read/steer_file.cpp",), "steering.dict", without=("read_steer_file",),
                       options=NOT_ENTROPIC),
    "wire": Target(1024, ("common/wire.cpp",), without=("send", "take_descriptors", "receive", "connect", "call")),
}


class Crash(Exception):
    """A target did not survive an input; the text says where it lies and what to do with it."""


def build(folder, options, names):
    """The targets in a build of their own, up to date. One at a time: two fuzzers may be started at once."""
    for name in names:
        parser_files(name)  # says at once what is wrong with the table
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _build(folder, options, names)


def _build(folder, options, names):
    steps = [["ninja", "-C", folder, "-j", os.environ.get("WEIR_JOBS", str(len(os.sched_getaffinity(0)))),
              *(f"tests/fuzz/fuzz-{name}" for name in names)]]
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        say(f"fuzz: configuring {folder} with clang")
        steps.insert(0, ["meson", "setup", folder, ROOT, *options])
    say(f"fuzz: building what is out of date in {folder} (a few minutes the first time)")
    for step in steps:
        done = subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env=dict(os.environ, CC="clang", CXX="clang++", CXX_LD="lld"))
        if done.returncode != 0:
            raise SessionError(f"{' '.join(step)} failed:\n{tail(done.stdout)}")


def seeds(folder, name):
    return os.path.join(folder, "corpus-seed", name)


def kept(folder, name):
    path = os.path.join(folder, "corpus", name)
    os.makedirs(path, exist_ok=True)
    return path


def command(folder, name):
    target = TARGETS[name]
    dictionary = [f"-dict={os.path.join(ROOT, 'tests/fuzz', target.dictionary)}"] if target.dictionary else []
    return [os.path.join(folder, "tests/fuzz", f"fuzz-{name}"), *dictionary, *target.options,
            f"-timeout={HANG_SECONDS}"]


def count(folder):
    return len(os.listdir(folder)) if os.path.isdir(folder) else 0


@dataclass
class Run:
    name: str
    executions: int
    seconds: float
    inputs: int      # of the corpus, as the target counts those that add something
    seeds: int

    def per_second(self):
        return self.executions / self.seconds

    def line(self):
        return (f"{self.name}: {self.executions} executions in {self.seconds:.0f} s, {self.per_second():.0f} a second, "
                f"corpus {self.inputs} inputs (from {self.seeds} seeds)")


def fuzz(folder, name, runs=None, seconds=None):
    """Fuzzes until one of both limits; progress on stderr. Crash when an input made it fail."""
    crashes = os.path.join(folder, "crashes", name)
    os.makedirs(crashes, exist_ok=True)
    limits = [f"-runs={runs}"] if runs is not None else []
    limits += [f"-max_total_time={seconds}"] if seconds is not None else []
    log_path = os.path.join(folder, f"fuzz-{name}.log")
    words = command(folder, name) + [f"-max_len={TARGETS[name].longest}", "-print_final_stats=1", *limits,
                                     f"-artifact_prefix={crashes}/", kept(folder, name), seeds(folder, name)]
    began = time.monotonic()
    with open(log_path, "w", encoding="utf-8") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            while process.poll() is None:
                try:
                    process.wait(PROGRESS_SECONDS)
                except subprocess.TimeoutExpired:
                    say(f"fuzz: {name}: {progress(log_path)} after {time.monotonic() - began:.0f} s")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    took = time.monotonic() - began
    with open(log_path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    executed = EXECUTIONS.search(text)
    if process.returncode != 0 or not executed:
        raise Crash(how_it_ended(folder, name, process.returncode, text, log_path))
    pulses = PULSE.findall(text)
    return Run(name, int(executed[1]), took, int(pulses[-1][1]) if pulses else count(kept(folder, name)),
               count(seeds(folder, name)))


def progress(log_path):
    with open(log_path, encoding="utf-8", errors="replace") as file:
        pulses = PULSE.findall(file.read())
    return f"{pulses[-1][0]} executions, {pulses[-1][2]} a second, corpus {pulses[-1][1]}" if pulses else "starting"


def how_it_ended(folder, name, code, text, log_path):
    written = re.search(r"Test unit written to (\S+)", text)
    reason = next((line.strip() for line in text.splitlines() if "ERROR:" in line or "runtime error" in line), "")
    if not written:
        return f"{name}: ended with {code}: {reason or tail(text, 5)}\n  everything it said: {log_path}"
    path = os.path.relpath(written[1])
    program = os.path.relpath(os.path.join(folder, "tests/fuzz", f"fuzz-{name}"))
    return (f"{name}: failed on {path}: {reason}\n"
            f"  again:     {program} {path}\n"
            f"  smaller:   {program} -minimize_crash=1 -runs=100000 {path}\n"
            f"  as a test: cp {path} tests/fuzz/crashes/{name}/WHAT-IT-WAS  (a seed from then on: scripts/test runs it),\n"
            f"             and the same bytes as a case of the parser's unit test, which says what is right\n"
            f"  everything it said: {log_path}")


# Coverage.

def llvm(tool):
    """The tool of clang's own version: others may not read its profiles."""
    text = subprocess.run(["clang", "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"version (\d+)", text)[1]
    found = shutil.which(f"{tool}-{version}") or shutil.which(tool)
    if not found:
        raise SessionError(f"{tool} is missing: run scripts/setup test (Debian package llvm)")
    return found


def lines_of(path, names):
    """The lines of the functions with these names, by the layout that clang-format gives them."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    definition = re.compile(r"( *)[A-Za-z\[][\w:<>,&*\[\] ]* (?:\w+::)*(?:" + "|".join(names) + r")\(.*[^;]$")
    found = set()
    for first, line in enumerate(lines):
        head = definition.match(line)
        if head:
            last = first if line.endswith("}") else lines.index(head[1] + "}", first)
            found |= set(range(first + 1, last + 2))
    return found


def counted_lines(name, path, lines):
    """Those of the parser: {line: count} without the functions that are not its own."""
    target = TARGETS[name]
    if target.only and os.path.relpath(path, ROOT) == target.only[0]:
        chosen = lines_of(path, target.only[1:])
        return {line: hits for line, hits in lines.items() if line in chosen}
    others = lines_of(path, target.without) if target.without else ()
    return {line: hits for line, hits in lines.items() if line not in others}


def parser_files(name):
    """SessionError when a glob of the target matches no file, or no file holds a function that it names."""
    target, files = TARGETS[name], set()
    for pattern in target.parser:
        found = glob.glob(os.path.join(ROOT, pattern))
        if not found:
            raise SessionError(f"{pattern} matches no file, and is to be the parser of the fuzz target {name}: "
                               "TARGETS in tests/rig/run/fuzzing.py has to follow the sources")
        files.update(found)
    for function in target.without + target.only[1:]:
        if not any(lines_of(path, (function,)) for path in files):
            raise SessionError(f"no file of the parser of the fuzz target {name} defines {function}: TARGETS in "
                               "tests/rig/run/fuzzing.py has to follow the sources")
    return sorted(files)


def coverage(folder, corpus_folder, name):
    """{file: {line: count}} of a parser's own lines after each input of the seeds and of the kept corpus, once."""
    raw, merged = (os.path.join(folder, f"{name}.{end}") for end in ("profraw", "profdata"))
    program = command(folder, name)
    done = subprocess.run(program + ["-runs=0", f"-max_len={1 << 20}", seeds(folder, name), kept(corpus_folder, name)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env=dict(os.environ, LLVM_PROFILE_FILE=raw))
    if done.returncode != 0:
        raise Crash(f"{name}: the corpus itself makes it fail:\n{tail(done.stdout)}")
    subprocess.run([llvm("llvm-profdata"), "merge", "-sparse", raw, "-o", merged], check=True)
    report = subprocess.run([llvm("llvm-cov"), "export", "-format=lcov", f"-instr-profile={merged}", program[0],
                             *parser_files(name)], capture_output=True, text=True, check=True).stdout
    own, files, current = set(map(os.path.realpath, parser_files(name))), {}, {}
    for line in report.splitlines():
        if line.startswith("SF:"):
            current = files.setdefault(os.path.realpath(line[3:]), {})
        elif line.startswith("DA:"):
            number, hits = map(int, line[3:].split(",")[:2])
            current[number] = current.get(number, 0) + hits
    return {path: counted_lines(name, path, lines) for path, lines in files.items() if path in own and lines}


def share(files):
    """(covered lines, lines)"""
    counts = [hits for lines in files.values() for hits in lines.values()]
    return sum(hits > 0 for hits in counts), len(counts)
