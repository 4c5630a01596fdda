"""Figures of the parsers: what hostile bytes and every kind of frame make of them. docs/develop/figures.md says how each is
measured."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from agreement import RANDOM_PACKETS, RANDOM_POLICIES, agree_on_captures, agree_on_random
from all_lists import measure_all_lists
from figure import at_least, at_most, reported
from fuzzing import COVERED, SANITIZED, TARGETS, Crash, build, coverage, fuzz, share
from rig import PROGRAMS, build_release, placed, processors, say, spread, WORKER_NICE
from session import ROOT, SessionError, tail

EXECUTIONS = 10_000_000
YAML_EXECUTIONS = 1_000_000  # a policy file costs a hundred frames
OF_YAML = ("policy", "events")
COVERAGE = 0.9
CASES = 150
AT_A_TIME = 2
SLOWEST_FIRST = ("snapshot", "drawn_feeds", "feed", "policy", "events", "steering", "book", "wire", "frame")


def beside(build_folder, name):
    """A build of another kind, next to the release build: what scripts/fuzz uses."""
    return build_folder + "-" + name


def fuzz_all(build_folder, _folder):
    """Every target for its number of executions, AT_A_TIME of them at a time."""
    if set(SLOWEST_FIRST) != set(TARGETS):
        raise SessionError(f"SLOWEST_FIRST and TARGETS differ: {', '.join(set(SLOWEST_FIRST) ^ set(TARGETS))}")
    folder = beside(build_folder, "address")
    build(folder, SANITIZED, list(TARGETS))

    def one(name):
        say(f"frames: fuzzing {name}")
        try:
            run = fuzz(folder, name, runs=YAML_EXECUTIONS if name in OF_YAML else EXECUTIONS)
        except Crash as crash:
            say(f"frames: {crash}")
            return name, None
        say(f"frames: {run.line()}")
        return name, run

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        runs = dict(pool.map(one, SLOWEST_FIRST))
    crashed = [name for name, run in runs.items() if run is None]
    executions = {name: 0 if run is None else run.executions for name, run in runs.items()}
    least = min(count for name, count in executions.items() if name not in OF_YAML)
    note = ", ".join(f"{name} {run.executions:.3g} at {run.per_second():.0f}/s" for name, run in runs.items() if run)
    if crashed:
        note += "; failed: " + ", ".join(crashed)
    figure = at_least("frames.fuzz_executions_min", least, EXECUTIONS, "executions", note)
    if min(executions[name] for name in OF_YAML) < YAML_EXECUTIONS:
        figure.status = "short"
    return [figure], {name: run and vars(run) for name, run in runs.items()}


def fuzz_coverage(build_folder, _folder):
    """Each parser's own lines that its seeds and its kept corpus reach."""
    folder = beside(build_folder, "coverage")
    build(folder, COVERED, list(TARGETS))
    shares = {}
    for name in TARGETS:
        say(f"frames: coverage of {name}")
        covered, lines = share(coverage(folder, beside(build_folder, "address"), name))
        shares[name] = covered / lines
    note = ", ".join(f"{name} {value:.3f}" for name, value in shares.items())
    return [at_least("frames.fuzz_coverage_min", min(shares.values()), COVERAGE, "share", note)], shares


def cases(build_folder, folder):
    """Rows of the send and expect test, through the real data plane."""
    build_release(build_folder, PROGRAMS)
    path = os.path.join(folder, "send-expect.json")
    say("frames: sending every row of send_expect")
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/rig/world/send_expect.py"), "--json", path],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
                          env=dict(os.environ, WEIR_BUILD=build_folder))
    if not os.path.exists(path):
        raise SessionError(f"send_expect.py ended with {done.returncode}: {tail(done.stdout, 5)}")
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    note = "{rows} rows, {frames} frames, {comparisons} comparisons, {failures} failures".format(**result)
    figure = at_least("frames.cases", result["rows"], CASES, "rows", note)
    if result["failures"] or done.returncode != 0:
        say(tail(done.stdout, 30))
        figure.status = "short"
    return [figure], result


def capture_disagreements(build_folder, folder):
    """Verdict by verdict and list by list, on every Ethernet capture of the test data."""
    result = agree_on_captures(build_folder, folder)
    note = ("{captures} captures, {policies} policies, {packets} frames judged, {hits} match, {layered} with inner "
            "layers, {malformed} malformed").format(**result)
    return [at_most("frames.capture_disagreements", result["disagreements"], 0, "frames", note)], result


def random_frames(build_folder, _folder):
    """The same on random policies and frames."""
    result = agree_on_random(build_folder)
    note = ("{policies_in_band} policies whose frames hit to 20 to 80 %, {policies} in all; {hits} of {packets} match, "
            "{dropped} dropped, {layered} with inner layers, {malformed} malformed, {incomplete} incomplete").format(**result)
    packets = at_least("frames.random_packets", result["packets_in_band"], RANDOM_POLICIES * RANDOM_PACKETS, "frames", note)
    if result["policies_in_band"] < RANDOM_POLICIES:
        packets.status = "short"
    return [packets, at_most("frames.random_disagreements", result["disagreements"], 0, "frames", note)], result


def all_lists(build_folder, folder):
    """Every plain list, all countries and the P2P ranges in one policy."""
    result = measure_all_lists(build_folder, folder)
    answers, shapes = result["reloads"], result["shapes"]
    seconds = [answer["total_ms"] / 1e3 for answer in answers]
    phases = {name: statistics.median(answer["phases"][name] for answer in answers) for name in answers[0]["phases"]}
    snapshot_mib = result["status"]["targets"][0]["snapshot_bytes"] / (1 << 20)
    note = (f"{spread(seconds)}; ms: " + ", ".join(f"{name} {ms:.0f}" for name, ms in phases.items())
            + f"; {result['status']['entries']} entries, snapshot {snapshot_mib:.1f} MiB")
    by_family = {family: [shape for shape in shapes["shapes"] if shape["family"] == family] for family in (4, 6)}
    probes = []
    for family, these in by_family.items():
        names = ", ".join(f"{shape['name']} ({shape['keys']})" for shape in these)
        probes.append(reported(f"frames.all_lists_probes_v{family}", shapes[f"probes_v{family}"], "probes",
                               f"{sum(shape['keys'] for shape in these)} keys: {names}"))
    return [at_most("frames.all_lists_reload_s", statistics.median(seconds), 3, "s", note),
            at_most("frames.all_lists_controld_mib", result["peak_mib"], 1024, "MiB",
                    f"VmHWM after {len(answers) + 1} compilations"), *probes], result


PARSED = {"v4": "v4_udp_64", "imix": "v4_imix", "qinq": "qinq_v4", "v6ext": "v6_two_extensions"}
BURST = 64


def parse_cost(build_folder, _folder):
    """Parse and keys of a packet: ns on this machine, and instructions by callgrind."""
    program = os.path.join(build_folder, "tests/bench/bench_parse")
    build_release(build_folder, ["tests/bench/bench_parse"])
    wanted = "^keys/(" + "|".join(PARSED.values()) + ")$"
    say("frames: parse and keys")
    done = subprocess.run(placed([program, "--benchmark_filter=" + wanted, "--benchmark_repetitions=9",
                                  "--benchmark_enable_random_interleaving=true", "--benchmark_format=json"],
                                 processors()[:1], WORKER_NICE), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=True, timeout=600)
    runs = [run for run in json.loads(done.stdout)["benchmarks"] if run["run_type"] == "iteration"]
    figures, raw = [], {}
    for name, traffic in PARSED.items():
        ns = [run["ns_per_packet"] for run in runs if run["name"].startswith("keys/" + traffic)]
        raw[name] = {"ns": ns, "instructions": instructions(program, "keys/" + traffic)}
        note = f"{traffic}: {spread(ns)}; {raw[name]['instructions']} instructions a packet"
        figures.append(reported(f"frames.parse_ns_{name}", statistics.median(ns), "ns", note))
    return figures, raw


def instructions(program, benchmark):
    """Of one packet: what more bursts cost more. None without valgrind."""
    if not shutil.which("valgrind"):
        return None
    counts = []
    for bursts in (200, 1200):
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program,
                               f"--benchmark_filter=^{benchmark}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, timeout=300, env=dict(os.environ, WEIR_BENCH_ITERATIONS=str(bursts)))
        found = re.search(r"Collected : (\d+)", done.stderr)
        if not found:
            raise SessionError(f"callgrind of {benchmark} failed:\n{tail(done.stderr)}")
        counts.append(int(found.group(1)))
    return round((counts[1] - counts[0]) / (1000 * BURST))


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("frames.capture_disagreements",), capture_disagreements),
    (("frames.random_packets", "frames.random_disagreements"), random_frames),
    (("frames.all_lists_reload_s", "frames.all_lists_controld_mib", "frames.all_lists_probes_v4",
      "frames.all_lists_probes_v6"), all_lists),
    (("frames.parse_ns_v4", "frames.parse_ns_imix", "frames.parse_ns_qinq", "frames.parse_ns_v6ext"), parse_cost),
    (("frames.cases",), cases),
    (("frames.fuzz_executions_min",), fuzz_all),
    (("frames.fuzz_coverage_min",), fuzz_coverage),  # after the executions: they fill the corpus
)
