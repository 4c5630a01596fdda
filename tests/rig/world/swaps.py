"""Are swaps invisible? Numbered packets cross the data plane while two policies alternate that disagree on every flow.

The pacer (tests/bench/pacer.cpp) holds the other ends of three memif ports: it sends on one and takes back what passed
and what was dropped. From a packet's flow and output it knows the policy that judged it.
"""

import os

from pace import Pace
from rig import GENERATOR_NICE, PlacedSession, Tool, processors, say, stolen_ms
from session import Memory, SessionError

FLOWS = 1024        # source addresses 10.0.0.0 + 0..1023; policy a drops the even ones, policy b the odd ones
PACER_PAGES = 64    # 2 MiB each: its mbufs and DPDK's own tables
MANY = 64 * FLOWS   # packets before the first reload and behind the last one
COUNTERS = ("rx_missed", "tx_lost", "capture_lost")

POLICY = """\
version: 1
policy: {{default: pass}}
lists:
  - {{name: flows, action: drop, match: src, file: {flows}.txt}}
"""
CONFIG = "forward: pair\ndrop_port: 2\nports: [{port: 0}, {port: 1}]"


def write_policies(session):
    for name, parity in (("even", 0), ("odd", 1)):
        with open(session.path(name + ".txt"), "w", encoding="ascii") as file:
            file.writelines(f"10.0.{flow >> 8}.{flow & 255}\n" for flow in range(parity, FLOWS, 2))


def choose(session, flows):
    """Puts policy.yaml in place of the other in one step, as an operator should."""
    with open(session.path("next.yaml"), "w", encoding="ascii") as file:
        file.write(POLICY.format(flows=flows))
    os.replace(session.path("next.yaml"), session.path("policy.yaml"))


def reload(session):
    answer = session.call("reload")
    if not answer.get("ok"):
        raise SessionError(f"reload failed: {answer}")
    return answer


def wait_for_packets(session, packets=FLOWS):
    """Until the policy has judged some: one that judged none would not be seen."""
    before = session.stats()["packets"]
    session.wait("packets", lambda: session.stats()["packets"] >= before + packets)


def memif(session, port):
    return f"id={port},socket={session.path('memif.sock')},socket-abstract=no"


def start_pacer(session, build, options):
    _, others = processors()
    memory = Memory(8192, 2048)
    prefix = "pacer-" + os.path.basename(session.folder)
    memory_options = ["--in-memory"] if memory.huge else ["--no-huge", "-m", str(2 * PACER_PAGES)]
    command = [os.path.join(build, "tests/bench/pacer"), "--lcores", f"0@{others[0]}", "--no-pci", "--no-telemetry",
               "--file-prefix", prefix, *memory_options]
    for port in range(3):  # rings of 2^14: the most memif has; the client's buffers are used, 256 bytes hold a packet
        command += ["--vdev", f"net_memif{port},role=client,rsize=14,bsize=256,{memif(session, port)}"]
    return Tool([*command, "--", "--flows", str(FLOWS), *options], others, GENERATOR_NICE, session.folder)


def measure_swaps(build, reloads, period=0.3, rate=None, trial_seconds=2, load=0.7, quantum_us=200):
    """Reloads `reloads` times, one every `period` seconds, under traffic at `rate` (None: at `load` of the highest rate
    that passes without loss). What the pacer found, with `reloads`, `mixed_bursts`, `lost_total` and the counters of
    the data plane."""
    options = ["--rate", str(rate or 0), "--load", str(load), "--trial-seconds", str(trial_seconds),
               "--confirm-seconds", str(reloads * period), "--quantum-us", str(quantum_us), "--max-seconds", str(60 + reloads * max(period, 1))]
    with PlacedSession(build) as session:
        vdevs = [f"net_memif{port},role=server,{memif(session, port)}" for port in range(3)]
        write_policies(session)
        choose(session, "even")
        session.start_dataplane(CONFIG, vdevs, 1, Memory(16384, 1518))
        session.start_controld(session.path("policy.yaml"))
        session.wait_enforced()
        with start_pacer(session, build, options) as pacer:
            pacer.event("ready")
            if rate is None:
                say("swap: looking for the highest rate without loss, under reloads of one policy")
                pace = Pace(period)
                while pacer.silent():
                    pace.turn()
                    reload(session)
            found = pacer.event("rate")
            say(f"swap: {reloads} reloads at {found['rate'] / 1e6:.3f} Mpps")
            wait_for_packets(session, MANY)
            preemptions, stolen, before = session.worker_preemptions(), stolen_ms(), session.stats()
            answers, pace = [], Pace(period)
            for turn in range(reloads):
                pace.turn()
                choose(session, "odd" if turn % 2 == 0 else "even")
                answers.append(reload(session))
                wait_for_packets(session)
            wait_for_packets(session, MANY)
            preemptions, stolen = session.worker_preemptions() - preemptions, stolen_ms() - stolen
            pacer.interrupt()
            result = pacer.event("result")
        after = session.stats()
    result["search"] = found
    result["reloads"] = reloads
    result["reload_ms"] = [answer["total_ms"] for answer in answers]
    result["worker_preemptions"] = preemptions
    result["worker_stolen_ms"] = stolen
    for counter in COUNTERS:
        result[counter] = after[counter] - before[counter]
    # What the data plane lost is among what the pacer misses, or one of the two counts wrongly.
    result["lost_total"] = result["missed"] + max(result["lost"], sum(result[counter] for counter in COUNTERS))
    # Each reload changes the policy of every flow once; what changes more often was mixed.
    result["mixed_bursts"] = result["changes"] - reloads
    return result
