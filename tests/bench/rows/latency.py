"""How long a frame is inside the worker: from asking the port for it to having handed it to the output.

At full rate frames come from net_pcap; at a million a second the pacer (tests/bench/pacer.cpp) sends them through memif,
a few every 20 microseconds. The policy is that of src_1m, and every pass is timed.
"""

import statistics
import time

from added_cycles import ask_client, memory_for, port, weir_config
from jitter import between, percentile
from port_rows import ROWS, give_snapshot, make_row
from rig import PlacedSession, say
from session import Memory
from swaps import CONFIG, memif, start_pacer

SECONDS = 5
PACED = 1_000_000
SHARES = {"p50_ns": 0.5, "p99_ns": 0.99, "p999_ns": 0.999}
TIMED = "\ntelemetry: {sample_one_in: 1}"
ROW = ROWS["src_1m"]


def latencies(build, session):
    return {upper: count for upper, count in ask_client(build, session, "telemetry")["latency_cycles"]}


def watch(build, session):
    """Percentiles of the next seconds."""
    tsc_ghz = ask_client(build, session, "telemetry")["tsc_hz"] / 1e9
    time.sleep(1)
    preemptions, before = session.worker_preemptions(), latencies(build, session)
    time.sleep(SECONDS)
    found = between(before, latencies(build, session))
    return {"frames": sum(found.values()), "preemptions": session.worker_preemptions() - preemptions,
            **{name: percentile(found, share) / tsc_ghz for name, share in SHARES.items()}}


def full_rate(build, made):
    with PlacedSession(build) as session:
        give_snapshot(session, made)
        session.start_dataplane(weir_config(ROW) + TIMED, [port(made, 1)], 1, memory_for(made))
        return watch(build, session)


def paced(build, made):
    with PlacedSession(build) as session:
        give_snapshot(session, made)
        vdevs = [f"net_memif{number},role=server,{memif(session, number)}" for number in range(3)]
        session.start_dataplane(CONFIG + TIMED, vdevs, 1, Memory(16384, 1518))
        time.sleep(1)  # its threads of memif come after the worker, and one that is late is waited for in vain
        options = ["--rate", str(PACED), "--quantum-us", "20", "--max-seconds", str(SECONDS + 30)]
        with start_pacer(session, build, options) as pacer:
            pacer.event("ready")
            pacer.event("rate")
            return watch(build, session)


WAYS = {"full_rate": full_rate, "1_mpps": paced}


def measure_latency(build, rounds):
    """{"full_rate", "1_mpps": {"p50_ns", "p99_ns", "p999_ns": medians, "runs"}}"""
    made, result = make_row(build, ROW), {}
    for way, measure in WAYS.items():
        runs = []
        for number in range(rounds):
            runs.append(measure(build, made))
            say(f"latency: {way}, round {number + 1}: " + ", ".join(f"{name} {runs[-1][name]:.0f}" for name in SHARES) +
                f"; {runs[-1]['frames']} frames, worker preempted {runs[-1]['preemptions']} times")
        result[way] = {"runs": runs, **{name: statistics.median(run[name] for run in runs) for name in SHARES}}
    return result
