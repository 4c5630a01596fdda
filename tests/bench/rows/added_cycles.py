"""What a policy adds to a packet: the data plane beside dpdk-testpmd on the same port, in paired rounds.

Both get the same capture looped by net_pcap, the same processor and the same mbufs, one after the other, again and
again. Time is the processor time of the process, so that what others run on its processor does not count, and is told
in cycles of the core clock measured in the same round. net_pcap copies every frame on its way in: both pay for it.
Rows of frames_port.cpp have a port that copies none, and that tells the cycles spent inside it.
"""

import ctypes
import dataclasses
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import time

from port_rows import Row, give_snapshot, make_row
from ratio import SPARE_MBUFS
from rig import PlacedSession, Skip, Tool, WORKER_NICE, build_release, core_clock, placed, processors, say
from session import Memory, SessionError, tail

CLIENT = "tests/bench/plane_client"
PEERS_PROGRAM = "tests/bench/port_peers"
FRAMES_PORT = "tests/bench/libframes_port.so"
COUNTERS = struct.Struct("=8Q")  # FramesPortCounters of frames_port.cpp
PORT_MBUFS = 8192  # of a port that copies none: the frames lie elsewhere
PEERS = ("hash", "fib", "acl")
# rte_acl needs minutes and gigabytes for a million hosts, DIR-24-8 a group of 1 KiB for the /24 of nearly every host.
MOST_ENTRIES = {"acl": 1_000, "fib": 100_000, "hash": 1_000_000}
PEER_SECONDS = 300
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


def port(made, workers):
    """A queue for each worker; they loop the same capture."""
    return "net_pcap0," + ",".join([f"rx_pcap={made.pcap}"] * workers) + ",infinite_rx=1"


def make_ready(build, row):
    """make_row(), and the library of the row's port."""
    if row.port == "frames":
        build_release(build, (FRAMES_PORT,))
    return make_row(build, row)


def devices(row, made):
    """EAL device arguments. A port that gives no frame swallows what it is sent, as the other one does."""
    if row.port == "frames":
        return ["net_null0,no-rx=1"]  # whose place FRAMES_PORT takes
    return [port(made, row.workers)] + (["net_null1,no-rx=1"] if row.idle_port else [])


def memory_for(made, row=Row()):
    if row.port == "frames":
        return Memory(PORT_MBUFS, made.longest)
    return Memory((made.frames + SPARE_MBUFS) * row.workers, made.longest)


def environment_of(build, row, made, session):
    """Variables for the program on the port."""
    if row.port != "frames":
        return {}
    return {"LD_PRELOAD": os.path.join(build, FRAMES_PORT), "WEIR_FRAMES": os.path.abspath(made.pcap),
            "WEIR_FRAMES_COUNTERS": session.path("frames-counters")}


def port_counters(row, session):
    """(frames, ticks) of the timed calls of either direction, and the GHz of the TSC. None: the port has no clock."""
    if row.port != "frames":
        return None
    with open(session.path("frames-counters"), "rb") as file:
        _, _, _, received, receive_ticks, sent, send_ticks, tsc_hz = COUNTERS.unpack(file.read(COUNTERS.size))
    return received, receive_ticks, sent, send_ticks, tsc_hz / 1e9


def port_ns(before, after):
    """Nanoseconds a packet inside the port, between two readings of its counters."""
    if before is None:
        return {}
    received, receive_ticks, sent, send_ticks = (last - first for first, last in zip(before[:4], after[:4]))
    return {"port_ns": {"receive": receive_ticks / received / after[4], "send": send_ticks / max(sent, 1) / after[4]}}


def worker_cpus(workers):
    first, others = processors()
    if workers > 1 + len(others):
        raise Skip(f"processors: {workers} workers need as many processors, {1 + len(others)} are there")
    return [first, *others][:workers]


def testpmd_run(build, made, mode, row, seconds):
    """{"packets", "mpps", "ns"}: received per second, processor time per packet. "port_ns": inside the port, where it
    has a clock."""
    if not shutil.which("dpdk-testpmd"):
        raise Skip("package: dpdk-testpmd is not installed", missing_here=True)
    workers = row.workers
    cpus, memory, readings = worker_cpus(workers), memory_for(made, row), []
    # testpmd wants a main lcore beside the forwarding ones; it sleeps while another polls the same processor.
    lcores = ",".join([f"0@{cpus[0]}", *(f"{number}@{cpu}" for number, cpu in enumerate(cpus, 1))])
    with PlacedSession("") as session:  # for its folder
        variables = [f"{name}={value}" for name, value in environment_of(build, row, made, session).items()]
        command = ["env", *variables, "dpdk-testpmd", "--lcores", lcores, "--no-pci", "--no-telemetry",
                   *memory.eal_options("testpmd-" + os.path.basename(session.folder)), *vdev_options(row, made),
                   "--", f"--forward-mode={mode}", "--stats-period=1", f"--total-num-mbufs={memory.mbufs}",
                   f"--mbuf-size={memory.data_room}", f"--rxq={workers}", f"--txq={workers}", f"--nb-cores={workers}"]
        of_port_0 = False
        with Tool(command, cpus, WORKER_NICE, session.folder) as testpmd:
            while len(readings) < WARM_UP_LINES + seconds + 1:
                line = testpmd.line(30)
                if "NIC statistics for port" in line:
                    of_port_0 = "port 0 " in line
                found = re.search(r"RX-packets:\s+(\d+)", line) if of_port_0 else None
                if found:
                    readings.append((int(found[1]), time.monotonic(), process_seconds(testpmd.process.pid),
                                     port_counters(row, session)))
    first, last = readings[WARM_UP_LINES], readings[-1]
    return {**rates(first, last), **port_ns(first[3], last[3])}


def vdev_options(row, made):
    return [word for device in devices(row, made) for word in ("--vdev", device)]


def rates(first, last):
    packets = last[0] - first[0]
    if packets <= 0:
        raise SessionError("nothing was received")
    return {"packets": packets, "mpps": packets / (last[1] - first[1]) / 1e6,
            "ns": (last[2] - first[2]) / packets * 1e9}


def ask_client(build, session, question, *options):
    """The answer of the data plane to "stats" or "telemetry"."""
    done = subprocess.run([os.path.join(build, CLIENT), question, session.path("dataplane.sock"), *options], capture_output=True,
                          text=True, timeout=60)
    if done.returncode != 0:
        raise SessionError(done.stderr.strip())
    return json.loads(done.stdout)


def stages_of(build, session):
    """{stage: (cycles of the TSC, packets)} of the sampled passes, and the GHz of the TSC."""
    answer = ask_client(build, session, "telemetry")
    return {name: (cost["cycles"], cost["packets"]) for name, cost in answer["stages"].items()}, answer["tsc_hz"] / 1e9


def stage_ns(before, after):
    """Nanoseconds a packet by stage, between two readings."""
    (first, _), (last, tsc_ghz) = before, after
    packets = max(last[name][1] - first[name][1] for name in last)  # draining counts cycles, not frames
    return {name: (last[name][0] - first[name][0]) / packets / tsc_ghz for name in last} if packets else {}


def weir_config(row=Row()):
    forward = "sink" if row.sink else "pair" if row.idle_port else "hairpin"
    ports = f"{{port: 0, queues: {row.workers}}}" + (", {port: 1}" if row.idle_port else "")
    return f"forward: {forward}\nsnapshot_memory: 16GiB\nports: [{ports}]"


def weir_run(build, made, row, seconds):
    """As testpmd_run, with the share of packets that were dropped and time by stage."""
    worker_cpus(row.workers)
    with PlacedSession(build) as session:
        give_snapshot(session, made)
        session.environment = environment_of(build, row, made, session)
        session.start_dataplane(weir_config(row), devices(row, made), row.workers, memory_for(made, row))
        time.sleep(WARM_UP_SECONDS)
        readings, stages = [], []
        for wait in (seconds, 0):
            stages.append(stages_of(build, session))
            stats = ask_client(build, session, "stats")
            readings.append((stats["packets"], stats["monotonic_ns"] / 1e9, process_seconds(session.dataplane.pid),
                             stats, port_counters(row, session)))
            time.sleep(wait)
        if stats["generation"] == 0:
            raise SessionError("the data plane did not take the snapshot:\n" + session.log("dataplane"))
    run = rates(*readings)
    run.update(port_ns(readings[0][4], readings[1][4]))
    run["stage_ns"] = stage_ns(*stages)
    run["dropped"] = (readings[1][3]["dropped"] - readings[0][3]["dropped"]) / run["packets"]
    return run


def peer_run(build, made, peer, seconds):
    """As weir_run, of a minimal loop with a table of DPDK."""
    memory, cpu = memory_for(made), processors()[0]
    with PlacedSession("") as session:  # for its folder
        command = [os.path.join(build, PEERS_PROGRAM), "--lcores", f"0@{cpu}", "--no-pci", "--no-telemetry",
                   *memory.eal_options("peer-" + os.path.basename(session.folder)), "--log-level", "lib.eal:error",
                   "--vdev", port(made, 1), "--", "--peer", peer, "--seconds", str(seconds),
                   "--mbufs", str(memory.mbufs), "--data-room", str(memory.data_room)]
        for feed in made.feeds:
            command += ["--list", feed]
        try:
            done = subprocess.run(placed(command, [cpu], WORKER_NICE), capture_output=True, text=True,
                                  cwd=session.folder, timeout=PEER_SECONDS,
                                  env=dict(os.environ, RUNTIME_DIRECTORY=session.folder))
        except subprocess.TimeoutExpired:
            raise Skip(f"{peer} was not built in {PEER_SECONDS} s") from None
    if done.returncode != 0:
        raise Skip(f"{peer} ended with {done.returncode}: {tail(done.stderr, 1)}")
    return json.loads(done.stdout.splitlines()[-1])


def peers_for(row, made):
    if not made.feeds or row.workers > 1 or row.sink or row.idle_port or row.traffic not in ("64", "mix") or row.port != "pcap":
        return []
    return [peer for peer in PEERS if row.entries <= MOST_ENTRIES[peer]]


def run_one(build, row, made, who, seconds):
    if who == "weir":
        return weir_run(build, made, row, seconds)
    if who.startswith("testpmd-"):
        return testpmd_run(build, made, who.removeprefix("testpmd-"), row, seconds)
    return peer_run(build, made, who, seconds)


def measure_row(build, row, rounds, seconds=2, beside=(), tables=None):
    """Rounds of {testpmd, weir, beside...}, in turning order. A program that cannot run is left out, with its reason. tables: of
    DPDK, which go with others beside; None: those of PEERS that take so many entries."""
    made = make_ready(build, row)
    base = "testpmd-rxonly" if row.sink else "testpmd-io"
    tables = (peers_for(row, made) if beside else ()) if tables is None else tables
    names, runs, missing = [base, "weir", *beside, *tables], [], {}
    for number in range(rounds):
        run = {"ghz": core_clock(build)["ghz"], "load": os.getloadavg()[0]}
        turn = number % len(names)
        for who in names[turn:] + names[:turn]:
            if who in missing:
                continue
            try:
                run[who] = run_one(build, row, made, who, seconds)
            except Skip as reason:
                if who in (base, "weir"):
                    raise
                missing[who] = str(reason)
        run["added_cycles"] = (run["weir"]["ns"] - run[base]["ns"]) * run["ghz"]
        run["ratio"] = run[base]["ns"] / run["weir"]["ns"]
        tell(row, number, run)
        runs.append(run)
    return {"row": row.name, **dataclasses.asdict(row), "base": base, "frames": made.frames, "missing": missing,
            "memory": str(memory_for(made, row)), "contents": made.contents, "runs": runs}


def tell(row, number, run):
    times = ", ".join(f"{who} {found['ns']:.2f} ns" for who, found in run.items() if isinstance(found, dict))
    say(f"{row.name}: round {number + 1}: {times} at {run['ghz']:.2f} GHz: {run['added_cycles']:.1f} cycles added, "
        f"{run['weir']['dropped']:.2%} dropped")
    if run["weir"]["stage_ns"]:
        say("  cycles by stage: " + ", ".join(f"{name} {ns * run['ghz']:.1f}"
                                              for name, ns in run["weir"]["stage_ns"].items()))


def middle(result, *path):
    """Median over the runs of result["runs"][i][path[0]][path[1]]...; None when a run has it not."""
    values = []
    for found in result["runs"]:
        for key in path:
            found = found.get(key) if found is not None else None
        values.append(found)
    return None if None in values else statistics.median(values)


def medians(result):
    """For a NOTE: medians of what was measured on both sides."""
    ghz = middle(result, "ghz")
    parts = [f"{who} {middle(result, who, 'ns'):.2f} ns = {middle(result, who, 'ns') * ghz:.0f} cycles "
             f"({middle(result, who, 'mpps'):.1f} Mpps)" for who in (result["base"], "weir")]
    stages = {name: middle(result, "weir", "stage_ns", name) for name in result["runs"][0]["weir"]["stage_ns"]}
    by_stage = "; by stage: " + ", ".join(f"{name} {ns * ghz:.0f}" for name, ns in stages.items()) if stages else ""
    probes = result["contents"]["probes_v6" if result["fields"] == "v6" else "probes_v4"]
    return (", ".join(parts) + f" at {ghz:.2f} GHz{by_stage}; {middle(result, 'weir', 'dropped'):.2%} dropped; "
            f"{result['contents']['entries']} entries, {probes} probes, {result['frames']} frames; load of the machine "
            f"{middle(result, 'load'):.1f}")
