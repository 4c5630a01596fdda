"""What a policy adds to a packet: the data plane beside dpdk-testpmd on the same port, in paired rounds.

Both get the same capture looped by net_pcap, the same processor and the same mbufs, one after the other, again and
again. Time is the processor time of the process, so that what others run on its processor does not count, and is told in
cycles of the core clock measured in the same round. net_pcap copies every frame on its way in: both pay for it.
"""

import ctypes
import json
import os
import re
import shutil
import statistics
import subprocess
import time

from port_rows import ROWS, give_snapshot, make_row
from ratio import PORT, SPARE_MBUFS
from rig import PlacedSession, Skip, Tool, WORKER_NICE, core_clock, processors, say
from session import Memory, SessionError

CLIENT = "tests/bench/plane_client"
TOOLS = ("tests/bench/core_clock", "tests/bench/make_snapshot", CLIENT)
WARM_UP_SECONDS = 1
WARM_UP_LINES = 2   # of testpmd's statistics, one a second


def process_seconds(pid, _clocks={}):
    """Processor time of all threads of the process, to the moment."""
    if pid not in _clocks:
        clock = ctypes.c_int()
        if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
            raise SessionError(f"no processor clock of process {pid}")
        _clocks[pid] = clock.value
    return time.clock_gettime(_clocks[pid])


def testpmd_command(pcap, memory, folder, sink):
    worker, _ = processors()
    # testpmd wants a main lcore beside the forwarding one; it sleeps while the other polls the same processor.
    return ["dpdk-testpmd", "--lcores", f"0@{worker},1@{worker}", "--no-pci", "--no-telemetry",
            *memory.eal_options("testpmd-" + os.path.basename(folder)), "--vdev", PORT.format(pcap=pcap), "--",
            f"--forward-mode={'rxonly' if sink else 'io'}", "--stats-period=1", f"--total-num-mbufs={memory.mbufs}",
            f"--mbuf-size={memory.data_room}"]


def testpmd_run(made, memory, seconds, sink):
    """{"mpps", "ns"}: received per second, processor time per packet."""
    if not shutil.which("dpdk-testpmd"):
        raise Skip("dpdk-testpmd is not installed", missing_here=True)
    readings = []
    with PlacedSession("") as session:  # for its folder
        with Tool(testpmd_command(made.pcap, memory, session.folder, sink), [processors()[0]], WORKER_NICE,
                  session.folder) as testpmd:
            while len(readings) < WARM_UP_LINES + seconds + 1:
                found = re.search(r"RX-packets:\s+(\d+)", testpmd.line(30))
                if found:
                    readings.append((int(found[1]), time.monotonic(), process_seconds(testpmd.process.pid)))
    return rates(readings[WARM_UP_LINES], readings[-1])


def rates(first, last):
    packets = last[0] - first[0]
    if packets <= 0:
        raise SessionError("nothing was received")
    return {"packets": packets, "mpps": packets / (last[1] - first[1]) / 1e6, "ns": (last[2] - first[2]) / packets * 1e9}


def ask_client(build, session, question):
    """The answer of the data plane to "stats" or "telemetry"."""
    done = subprocess.run([os.path.join(build, CLIENT), question, session.path("dataplane.sock")], capture_output=True,
                          text=True, timeout=60)
    if done.returncode != 0:
        raise SessionError(done.stderr.strip())
    return json.loads(done.stdout)


def stages_of(build, session):
    """{stage: (cycles of the TSC, packets)} of the sampled passes and the TSC's GHz; None: no telemetry here."""
    try:
        answer = ask_client(build, session, "telemetry")
    except SessionError:
        return None
    return {name: (cost["cycles"], cost["packets"]) for name, cost in answer["stages"].items()}, answer["tsc_hz"] / 1e9


def stage_ns(before, after):
    """Nanoseconds a packet by stage, between two readings."""
    if before is None or after is None:
        return {}
    (first, _), (last, tsc_ghz) = before, after
    packets = max(last[name][1] - first[name][1] for name in last)  # draining counts cycles, not frames
    return {name: (last[name][0] - first[name][0]) / packets / tsc_ghz for name in last} if packets else {}


def weir_config(sink):
    return f"forward: {'sink' if sink else 'hairpin'}\nports: [{{port: 0}}]"


def weir_run(build, made, memory, seconds, sink):
    """As testpmd_run, with the share of packets that were dropped."""
    with PlacedSession(build) as session:
        give_snapshot(session, made)
        session.start_dataplane(weir_config(sink), [PORT.format(pcap=made.pcap)], 1, memory)
        time.sleep(WARM_UP_SECONDS)
        readings, stages = [], []
        for wait in (seconds, 0):
            stages.append(stages_of(build, session))
            stats = ask_client(build, session, "stats")
            readings.append((stats["packets"], stats["monotonic_ns"] / 1e9, process_seconds(session.dataplane.pid), stats))
            time.sleep(wait)
        if stats["generation"] == 0:
            raise SessionError("the data plane did not take the snapshot:\n" + session.log("dataplane"))
    run = rates(*readings)
    run["stage_ns"] = stage_ns(*stages)
    run["dropped"] = (readings[1][3]["dropped"] - readings[0][3]["dropped"]) / run["packets"]
    return run


def measure_row(build, row, rounds, seconds=2):
    """Rounds of {testpmd, weir}, in turning order."""
    made = make_row(build, row)
    memory = Memory(made.frames + SPARE_MBUFS, made.longest)
    runs = []
    for number in range(rounds):
        run = {"ghz": core_clock(build)["ghz"]}
        for who in ("testpmd", "weir") if number % 2 == 0 else ("weir", "testpmd"):
            run[who] = (testpmd_run(made, memory, seconds, row.sink) if who == "testpmd" else
                        weir_run(build, made, memory, seconds, row.sink))
        run["added_cycles"] = (run["weir"]["ns"] - run["testpmd"]["ns"]) * run["ghz"]
        run["ratio"] = run["testpmd"]["ns"] / run["weir"]["ns"]
        say(f"{row.name}: round {number + 1}: testpmd {run['testpmd']['ns']:.2f} ns, weir {run['weir']['ns']:.2f} ns, "
            f"{run['ghz']:.2f} GHz: {run['added_cycles']:.1f} cycles added, {run['weir']['dropped']:.2%} dropped")
        if run["weir"]["stage_ns"]:
            say("  cycles by stage: " + ", ".join(f"{name} {ns * run['ghz']:.1f}"
                                                  for name, ns in run["weir"]["stage_ns"].items()))
        runs.append(run)
    return {"row": row.name, "what": row.what, "frames": made.frames, "memory": str(memory), "contents": made.contents,
            "runs": runs}


def medians(result):
    """For a NOTE: medians of what was measured on both sides."""
    def middle(*path):
        values = []
        for run in result["runs"]:
            for key in path:
                run = run[key]
            values.append(run)
        return statistics.median(values)

    ghz = middle("ghz")
    parts = [f"{who} {middle(who, 'ns'):.2f} ns = {middle(who, 'ns') * ghz:.0f} cycles ({middle(who, 'mpps'):.1f} Mpps)"
             for who in ("testpmd", "weir")]
    return (", ".join(parts) + f" at {ghz:.2f} GHz; {middle('weir', 'dropped'):.2%} dropped; "
            f"{result['contents']['entries']} entries, {result['contents']['probes_v4']} probes, {result['frames']} frames")


def measure_rows(build, names, rounds):
    return {name: measure_row(build, ROWS[name], rounds) for name in names}
