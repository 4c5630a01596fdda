"""How fast is the data plane beside dpdk-testpmd, which forwards and looks at nothing?

Both get the same port (net_pcap that loops a capture out of memory and swallows what is sent), the same processor and
the same mbufs, one after the other, again and again: what the machine does to one it does to the other.
"""

import os
import re
import shutil
import statistics
import time

from capture import read_capture
from rig import PlacedSession, Skip, Tool, WORKER_NICE, core_clock, processors, say, test_data
from samples import make_samples
from session import Memory, SessionError

SPARE_MBUFS = 2048      # beside those that hold the capture: bursts under way and the mempool's cache
WARM_UP_SECONDS = 1     # after the policy is enforced
WARM_UP_LINES = 2       # of testpmd's statistics, one a second
PORT = "net_pcap0,rx_pcap={pcap},infinite_rx=1"
CONFIG = "forward: hairpin\nports: [{port: 0}]"
EMPTY = "version: 1\nlists: []\n"
COMBINED = "version: 1\nlists:\n  - {{name: combined, action: drop, match: src, file: {path}}}\n"


def testpmd_mpps(pcap, memory, seconds, folder):
    """Received per second by testpmd's own clock and counters, io mode, its defaults; median of the seconds."""
    if not shutil.which("dpdk-testpmd"):
        raise Skip("package: dpdk-testpmd is not installed", missing_here=True)
    worker, _ = processors()
    # testpmd wants a main lcore beside the forwarding one; it sleeps while the other polls the same processor.
    command = ["dpdk-testpmd", "--lcores", f"0@{worker},1@{worker}", "--no-pci", "--no-telemetry",
               *memory.eal_options("testpmd-" + os.path.basename(folder)), "--vdev", PORT.format(pcap=pcap), "--",
               "--forward-mode=io", "--stats-period=1", f"--total-num-mbufs={memory.mbufs}",
               f"--mbuf-size={memory.data_room}"]
    rates = []
    with Tool(command, [worker], WORKER_NICE, folder) as testpmd:
        while len(rates) < WARM_UP_LINES + seconds:
            found = re.search(r"Rx-pps:\s+(\d+)", testpmd.line(30))
            if found:
                rates.append(int(found[1]) / 1e6)
    return statistics.median(rates[WARM_UP_LINES:])


def weir_mpps(build, pcap, memory, policy, seconds):
    """(received per second in Mpps, share dropped) in a steady window, by the data plane's counters."""
    with PlacedSession(build) as session:
        with open(session.path("policy.yaml"), "w", encoding="utf-8") as file:
            file.write(policy)
        session.start_dataplane(CONFIG, [PORT.format(pcap=pcap)], 1, memory)
        session.start_controld(session.path("policy.yaml"))
        session.wait_enforced()
        time.sleep(WARM_UP_SECONDS)
        before, began = session.stats(), time.monotonic()
        time.sleep(seconds)
        after, ended = session.stats(), time.monotonic()
    packets = after["packets"] - before["packets"]
    if packets == 0:
        raise SessionError("the data plane received nothing")
    return packets / (ended - began) / 1e6, (after["dropped"] - before["dropped"]) / packets


def capture_and_policies(folder):
    """(path of the capture, {name: policy}, what is missing). Without the shared data: the project's own sample."""
    try:
        pcap = test_data("pcaps/mix_shared.pcap.xz", folder)
        combined = test_data("blocklists/combined-v4.txt.xz", folder)
    except Skip as missing:
        make_samples(folder)
        return os.path.join(folder, "capture.pcap"), {"empty": EMPTY}, str(missing)
    return pcap, {"empty": EMPTY, "combined": COMBINED.format(path=combined)}, ""


def measure_ratios(build, folder, rounds=5, seconds=2):
    """Rounds of {testpmd, empty, combined}, in turning order; per policy the ratios to testpmd of the same round."""
    pcap, policies, missing = capture_and_policies(folder)
    capture = read_capture(pcap)
    memory = Memory(len(capture.frames) + SPARE_MBUFS, capture.longest())
    runs = []
    for number in range(rounds):
        order = ["testpmd", *policies]
        order = order[number % len(order):] + order[:number % len(order)]
        run = {"ghz": core_clock(build)["ghz"], "order": order, "mpps": {}, "dropped": {}}
        for name in order:
            if name == "testpmd":
                run["mpps"][name] = testpmd_mpps(pcap, memory, seconds, folder)
            else:
                run["mpps"][name], run["dropped"][name] = weir_mpps(build, pcap, memory, policies[name], seconds)
        say("ratio: round " + str(number + 1) + ": " +
            ", ".join(f"{name} {mpps:.2f} Mpps" for name, mpps in run["mpps"].items()))
        runs.append(run)
    return {
        "capture": os.path.basename(pcap), "frames": len(capture.frames), "memory": str(memory), "missing": missing,
        "runs": runs,
        "ratios": {name: [run["mpps"][name] / run["mpps"]["testpmd"] for run in runs] for name in policies},
        "cycles": {name: [run["ghz"] * 1e3 / run["mpps"][name] for run in runs] for name in ["testpmd", *policies]},
    }
