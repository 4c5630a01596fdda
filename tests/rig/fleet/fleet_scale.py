"""A thousand nodes of a fleet against three members of etcd on this machine: what each costs etcd, and how soon all have what is new.

    python3 tests/rig/fleet/fleet_scale.py [--nodes N] [--build DIR]

The nodes are those of tests/bench/fleet_nodes: the process by which a real node speaks to etcd, a thousand times, without a filter.
Standard library only.
"""

import argparse
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from figure import at_least, reported
from fleet_rig import NAME, Etcd, Operator
from pace import hold
from session import ROOT, SessionError
from until import Patience, until

NODES = 1000
PROGRAM = "tests/bench/fleet_nodes"
FEED_ENTRIES = 10_000
IDLE_SECONDS = int(os.environ.get("WEIR_FLEET_IDLE_SECONDS", 60))  # two reports of each node
WAIT_SECONDS = 180
ADDS = 20
COUNTERS = {"sent": r'etcd_network_client_grpc_sent_bytes_total (\S+)', "received": r'etcd_network_client_grpc_received_bytes_total (\S+)',
            "cpu": r'process_cpu_seconds_total (\S+)', "memory": r'process_resident_memory_bytes (\S+)',
            "watchers": r'etcd_debugging_mvcc_watcher_total (\S+)', "leases": r'etcd_debugging_server_lease_expired_total (\S+)'}


def counters(etcd):
    """Sums over the members."""
    sums = dict.fromkeys(COUNTERS, 0.0)
    for url in etcd.urls():
        with urllib.request.urlopen(url + "/metrics", timeout=10) as answer:
            text = answer.read().decode()
        for name, pattern in COUNTERS.items():
            if match := re.search("^" + pattern, text, re.MULTILINE):
                sums[name] += float(match[1])
    return sums


class Nodes:
    """The program, and what it says."""

    def __init__(self, build, etcd, nodes):
        self.process = subprocess.Popen([os.path.join(build, PROGRAM), "--nodes", str(nodes), "--fleet", NAME, "--etcd", ",".join(etcd.urls())],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)

    def wait(self, holds, seconds=WAIT_SECONDS):
        """The first line that holds() likes."""
        patience = Patience(seconds, turn=1)
        while not patience.is_over():
            if not self.selector.select(1):
                if self.process.poll() is not None:
                    raise SessionError(f"{PROGRAM} ended with {self.process.returncode}")
                continue
            line = self.process.stdout.readline()
            if line and holds(told := json.loads(line)):
                return told
        raise SessionError(f"{PROGRAM} did not come to what was waited for in {seconds} s")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def write_policy(folder, first):
    with open(os.path.join(folder, "feed.txt"), "w", encoding="ascii") as file:
        for number in range(first, first + FEED_ENTRIES):
            file.write(f"11.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}\n")
    with open(os.path.join(folder, "weir.yaml"), "w", encoding="ascii") as file:
        file.write("version: 1\nlists:\n  - {name: feed, action: drop, file: feed.txt}\n  - {name: jail, action: drop, dynamic: true}\n")


def scale(build, nodes):
    runs = {"nodes": nodes}
    with tempfile.TemporaryDirectory(prefix="weir-operator-") as folder, Etcd() as etcd:
        operator = Operator(build, etcd, folder)
        write_policy(folder, 0)
        first = operator.fleet("push", "weir.yaml")["revision"]
        start = time.time()
        with Nodes(build, etcd, nodes) as simulated:
            runs["all_started_s"] = simulated.wait(lambda told: told["revision"] == first)["at"] - start
            until("each node to watch", lambda: counters(etcd)["watchers"] >= nodes, WAIT_SECONDS, SessionError, turn=1)
            before, begin = counters(etcd), time.monotonic()
            hold(IDLE_SECONDS)
            after, seconds = counters(etcd), time.monotonic() - begin
            runs["idle"] = {name: (after[name] - before[name]) / seconds for name in ("sent", "received", "cpu")}
            runs["etcd"] = after
            write_policy(folder, 7)
            before, start = counters(etcd), time.time()
            pushed = operator.fleet("push", "weir.yaml")
            runs["push_s"] = simulated.wait(lambda told: told["revision"] == pushed["revision"])["at"] - start
            after = counters(etcd)
            runs["push_bytes"] = after["sent"] - before["sent"]
            runs["packed_bytes"] = pushed["bytes_sent"]
            runs["add_s"] = []
            before = counters(etcd)
            for number in range(ADDS):
                start = time.time()
                operator.fleet("add", f"198.18.0.{number}")
                runs["add_s"].append(simulated.wait(lambda told, wanted=number + 1: told["entries"] == wanted)["at"] - start)
            runs["add_bytes"] = (counters(etcd)["sent"] - before["sent"]) / ADDS
            runs["alive"] = sum(node["is_alive"] for node in operator.nodes().values())
    return runs


def figures(build, _folder=None, nodes=NODES):
    runs = scale(build, nodes)
    idle = runs["idle"]
    adds = sorted(runs["add_s"])
    note = (f"all have a first revision after {runs['all_started_s']:.1f} s, a push after {runs['push_s']:.1f} s ({runs['packed_bytes']} bytes packed), "
            f"an entry after {adds[len(adds) // 2]:.2f} s, most {adds[-1]:.2f}; 3 members of etcd and all nodes on {os.cpu_count()} processors")
    each = (idle["sent"] + idle["received"]) / nodes
    return [
        at_least("fleet.nodes_simulated", runs["alive"], nodes, "nodes", note),
        reported("fleet.etcd_bytes_per_node", round(each, 1), "bytes/s",
                 f"in and out of etcd for each node while nothing happens; a push {runs['push_bytes'] / nodes:.0f} bytes, an entry {runs['add_bytes'] / nodes:.0f}; "
                 f"etcd uses {idle['cpu'] * 100:.0f} % of a processor and {runs['etcd']['memory'] / 2**20:.0f} MiB for {nodes} nodes"),
    ], runs


MEASUREMENTS = ((("fleet.nodes_simulated", "fleet.etcd_bytes_per_node"), figures),)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR")
    parser.add_argument("--nodes", type=int, default=NODES)
    arguments = parser.parse_args()
    found, runs = figures(os.path.abspath(arguments.build), None, arguments.nodes)
    for figure in found:
        print(figure.line())
    print(json.dumps(runs))
    return 1 if any(figure.status == "short" for figure in found) else 0


if __name__ == "__main__":
    sys.exit(main())
