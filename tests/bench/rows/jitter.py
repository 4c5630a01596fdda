"""What a swap does to the worker's bursts: the time of every pass, while ready-made snapshots take turns.

The control publishes the same snapshots at the same pace to the same data plane, which receives, copies, digests,
validates and writes them, and then cannot rename the file into its place: a folder has its name. So everything happens
but the exchange, and what follows from it. Both are measured in turns in one process.
"""

import json
import os
import subprocess

from added_cycles import CLIENT, ask_client, memory_for, port, weir_config
from port_rows import ROWS, folder_of, give_snapshot, make_row, make_snapshot
from rig import CONTROL_NICE, PlacedSession, core_clock, placed, processors, say
from session import SessionError

SWAP, CONTROL = "swap", "control"


def buckets(build, session):
    """{largest cycles: passes} of the worker so far, by the TSC."""
    return {upper: count for upper, count in ask_client(build, session, "telemetry")["pass_cycles"]}


def percentile(histogram, fraction):
    """The upper end of the bucket that holds the value of this rank; as common/histogram.h."""
    rank, below = max(1, -int(-fraction * sum(histogram.values()) // 1)), 0
    for upper in sorted(histogram):
        below += histogram[upper]
        if below >= rank:
            return upper
    return 0


def between(before, after):
    grown = {upper: count - before.get(upper, 0) for upper, count in after.items()}
    return {upper: count for upper, count in grown.items() if count > 0}


def segment(build, session, kind, snapshots, per_second, count, tsc_ghz):
    """`count` publications: p999 and the longest pass, in nanoseconds, and what became of the publications."""
    preemptions, before = session.worker_preemptions(), buckets(build, session)
    _, others = processors()
    command = [os.path.join(build, CLIENT), "swap", session.path("dataplane.sock"), *snapshots, "--per-second",
               str(per_second), "--count", str(count)] + (["--misnamed"] if kind == CONTROL else [])
    done = subprocess.run(placed(command, others, CONTROL_NICE), stdout=subprocess.PIPE, text=True,
                          timeout=120 + 10 * count / per_second)
    after, preemptions = buckets(build, session), session.worker_preemptions() - preemptions
    if done.returncode != 0:
        raise SessionError("a publication found no answer")
    published = json.loads(done.stdout)
    wanted = {"enforced": count, "failed_steps": {}} if kind == SWAP else {
        "enforced": 0, "failed_steps": {"validate": count}}
    if any(published[key] != value for key, value in wanted.items()):
        raise SessionError(f"{kind}: of {count} publications {published['enforced']} are enforced, refused by step: "
                           f"{published['failed_steps']}")
    passes = between(before, after)
    return {"kind": kind, "passes": sum(passes.values()), "p50_ns": percentile(passes, 0.5) / tsc_ghz,
            "p99_ns": percentile(passes, 0.99) / tsc_ghz, "p999_ns": percentile(passes, 0.999) / tsc_ghz,
            "longest_ns": max(passes) / tsc_ghz, "preemptions": preemptions, **published}


def measure_jitter(build, per_second, rounds, count):
    """Rounds of {control, swap} segments of `count` publications each, in turning order."""
    row = ROWS["src_1m"]
    made = make_row(build, row)
    snapshots = [make_snapshot(build, folder_of(build), row, number)[0] for number in (1, 2)]
    runs = []
    with PlacedSession(build) as session:
        give_snapshot(session, made)
        session.start_dataplane(weir_config() + "\ntelemetry: {sample_one_in: 1}", [port(made, 1)], 1,
                                memory_for(made))
        tsc_ghz = ask_client(build, session, "telemetry")["tsc_hz"] / 1e9
        for number in range(rounds):
            run = {}
            for kind in (CONTROL, SWAP) if number % 2 == 0 else (SWAP, CONTROL):
                run[kind] = segment(build, session, kind, snapshots, per_second, count, tsc_ghz)
            run["ratio"] = run[SWAP]["p999_ns"] / run[CONTROL]["p999_ns"]
            say(f"jitter: {per_second} a second, round {number + 1}: p99.9 of a pass {run[SWAP]['p999_ns']:.0f} ns "
                f"with swaps, {run[CONTROL]['p999_ns']:.0f} without: {run['ratio']:.3f}; longest "
                f"{run[SWAP]['longest_ns'] / 1e3:.0f} and {run[CONTROL]['longest_ns'] / 1e3:.0f} us")
            runs.append(run)
    return {"per_second": per_second, "count": count, "tsc_ghz": tsc_ghz, "ghz": core_clock(build)["ghz"], "runs": runs}
