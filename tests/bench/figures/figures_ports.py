"""Figures of real ports at their full rate. docs/develop/figures.md says how each is measured."""

import json
import os
import statistics
import subprocess

from added_cycles import measure_row, medians
from figure import at_least, at_most, reported
from jitter import CONTROL, SWAP, measure_jitter
from port_rows import ROWS
from rig import Skip, spread
from session import ROOT, SessionError, tail
from soak import measure_soak
from swaps import measure_swaps

ROUNDS = 5
JITTER_ROUNDS, JITTER_SECONDS = 5, 15   # of {control, swaps}; a segment of either
LOST_PACKETS, LOST_SWAPS, LOST_PERIOD = 10**8, 1000, 0.12  # seconds
SOAK_PACKETS, SOAK_RELOADS = 10**10, 10**4
NIC_TYPES, SKIPPED = "tests/nic/run", 77


def added(build, row, limit):
    result = measure_row(build, ROWS[row], ROUNDS)
    values = [run["added_cycles"] for run in result["runs"]]
    note = f"{spread(values, 1)}; {medians(result)}"
    return [at_most(f"ports.added_cycles_{row}", statistics.median(values), limit, "cycles", note)], result


def added_src_1m(build, _folder):
    return added(build, "src_1m", 33)


def added_flow_1m(build, _folder):
    return added(build, "flow_1m", 60)


def added_allhit(build, _folder):
    return added(build, "allhit", 45)


def ratio_mix_src_1m(build, _folder):
    result = measure_row(build, ROWS["mix_src_1m"], ROUNDS)
    values = [run["ratio"] for run in result["runs"]]
    note = f"{spread(values)}; {medians(result)}"
    return [at_least("ports.ratio_mix_src_1m", statistics.median(values), 0.9, "ratio", note)], result


def jitter_note(result):
    def middle(kind, key):
        return statistics.median(run[kind][key] for run in result["runs"])

    longest = {kind: max(run[kind]["longest_ns"] for run in result["runs"]) / 1e3 for kind in (SWAP, CONTROL)}
    parts = [f"{kind}: p50 {middle(kind, 'p50_ns'):.0f}, p99 {middle(kind, 'p99_ns'):.0f}, p99.9 "
             f"{middle(kind, 'p999_ns'):.0f} ns, longest {longest[kind]:.0f} us, "
             f"preempted {sum(run[kind]['preemptions'] for run in result['runs'])} times" for kind in (SWAP, CONTROL)]
    swaps = sum(run[SWAP]["enforced"] for run in result["runs"])
    return (f"{spread([run['ratio'] for run in result['runs']])}; {swaps} swaps at {result['per_second']} a second; "
            f"{'; '.join(parts)}; {result['ghz']:.2f} GHz")


def jitter(build, _folder):
    figures, raw = [], {}
    for name, per_second in (("ports.jitter_p999", 1), ("ports.jitter_p999_10hz", 10)):
        raw[name] = result = measure_jitter(build, per_second, JITTER_ROUNDS, JITTER_SECONDS * per_second)
        value = statistics.median(run["ratio"] for run in result["runs"])
        figures.append(at_most(name, value, 1.1, "ratio", jitter_note(result)) if per_second == 1 else
                       reported(name, value, "ratio", jitter_note(result)))
    return figures, raw


def lost(build, _folder):
    result = measure_swaps(build, LOST_SWAPS, period=LOST_PERIOD)
    note = (f"{result['sent']} packets at {result['rate'] / 1e6:.2f} Mpps, {result['reloads']} swaps; lost "
            f"{result['lost']}, refused by a full ring {result['missed']}, twice {result['surplus']}; worker preempted "
            f"{result['worker_preemptions']} times, {result['worker_stolen_ms']} ms stolen from its processor")
    figure = at_most("ports.lost", result["lost_total"] + result["surplus"], 0, "packets", note)
    if result["sent"] < LOST_PACKETS:
        figure.status, figure.note = "short", f"fewer than {LOST_PACKETS} packets; " + note
    return [figure], result


def soak(build, _folder):
    result = measure_soak(build, SOAK_PACKETS, SOAK_RELOADS)
    start, _, end = result["samples"]
    flat = "; ".join(f"{name}: file descriptors {start[name]['fds']} to {end[name]['fds']}, memory "
                     f"{start[name]['kib'] // 1024} to {end[name]['kib'] // 1024} MiB" for name in start)
    note = f"{result['reloads']} reloads in {result['seconds']:.0f} s; {flat}"
    return [at_least("ports.soak_packets", result["packets"], SOAK_PACKETS, "packets", note),
            at_most("ports.soak_leaks", len(result["leaks"]), 0, "leaks",
                    "; ".join(result["leaks"]) or "all mbufs are back, every counter is what the capture says")], result


def nic_types(build, _folder):
    """A type is a device of QEMU; it passes when all of its cards do, behind whichever driver of the guest's kernel."""
    done = subprocess.run([os.path.join(ROOT, NIC_TYPES), "--json", "--build", build], capture_output=True, text=True)
    if done.returncode == SKIPPED:
        raise Skip(done.stderr.strip())
    cards = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not cards:
        raise SessionError(f"{NIC_TYPES} ended with {done.returncode} and told of no card:\n{tail(done.stderr)}")
    types = {}
    for card in cards:
        types.setdefault(card["device"].split(",")[0], []).append(card)
    passed = [name for name, of_type in types.items() if all(card["passed"] for card in of_type)]
    failed = [card["card"] for card in cards if not card["passed"]]
    note = (f"{', '.join(passed)}; {sum(card['checks'] for card in cards)} checks on {len(cards)} cards with "
            f"{len({card['driver'] for card in cards})} drivers; failed: {', '.join(failed) or 'none'}")
    figure = at_least("ports.nic_types_passed", len(passed), 4, "types", note)
    if done.returncode != 0:
        figure.status = "short"
    return [figure], cards


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("ports.added_cycles_src_1m",), added_src_1m),
    (("ports.ratio_mix_src_1m",), ratio_mix_src_1m),
    (("ports.added_cycles_flow_1m",), added_flow_1m),
    (("ports.added_cycles_allhit",), added_allhit),
    (("ports.jitter_p999", "ports.jitter_p999_10hz"), jitter),
    (("ports.lost",), lost),
    (("ports.nic_types_passed",), nic_types),
    (("ports.soak_packets", "ports.soak_leaks"), soak),
)
