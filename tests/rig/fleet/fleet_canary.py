"""Whether a bad revision stops in the group that gets it first: one that a node refuses, and one after which a node drops more than it
expected by its own samples of traffic. Standard library only."""

import os
import threading

import sys
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from capture import Capture, write_capture
from figure import at_least
from fleet_rig import Etcd, Node, Operator
from frames import Ethernet, Frame, V4, number_of, udp
from session import Memory, SessionError

SOURCES = [f"192.0.2.{number}" for number in range(1, 6)]  # as many frames each
FRAMES = [Frame([Ethernet(), V4(number_of(source), number_of("203.0.113.9")), udp(1, 2)]).bytes for source in SOURCES] * 200
SAMPLES = 2000
WATCH_S = 15


def policy(entries, more=""):
    return (f"version: 1\n{more}lists:\n  - {{name: here, action: drop, entries: [{entries}]}}\n"
            "  - {name: jail, action: drop, dynamic: true}\n")


def start(node):
    write_capture(node.path("in0.pcap"), Capture(frames=FRAMES, headers=[(0, 0, len(frame)) for frame in FRAMES]))
    node.start_dataplane("forward: hairpin\nports: [{port: 0, queues: 1}]", ["net_pcap0,rx_pcap=in0.pcap,infinite_rx=1"], 1,
                         Memory(len(FRAMES) + 2048, 1518))
    node.start()
    node.wait_enforced()


def has_samples(node, path):
    _, answer, _ = node.controlctl("plan", path, "--json")
    return '"samples":' in answer.replace(" ", "") and int(answer.split('"samples":')[1].split(",")[0].strip(" }")) >= SAMPLES


def canary(build, folder):
    """(figures, what was told)"""
    told = []
    with Etcd() as etcd, Node(build, etcd, "n1", "canary") as first, Node(build, etcd, "n2") as second:
        for node in (first, second):
            start(node)
        operator = Operator(build, etcd, folder)
        path = os.path.join(folder, "weir.yaml")

        def write(text):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)

        def rollout():
            """The reason why it stopped, and whether the second group was left alone."""
            staged = operator.fleet("push", "--stage", "weir.yaml")["revision"]
            before = operator.nodes()["n2"]["revision"]
            code, answer, _ = operator.try_fleet("rollout", "--groups", "canary,rest", "--watch", f"{WATCH_S}s", "--wait", "60s")
            told.append(answer.get("error", ""))
            return code == 1 and operator.nodes()["n2"]["revision"] == before != staged

        write(policy("192.0.2.1"))
        pushed = operator.fleet("push", "weir.yaml")["revision"]
        for node in (first, second):
            node.wait("the first revision", lambda one=node: operator.nodes().get(one.name, {}).get("revision") == pushed)
            node.wait("samples of the traffic", lambda one=node: has_samples(one, path))
        write(policy("192.0.2.0/24", "plan: {max_newly_dropped: 10%}\n"))
        is_refused = rollout() and "refuses it" in told[-1]
        operator.fleet("rollback", "--to", str(pushed))
        write(policy("192.0.2.1, 192.0.2.2"))

        def add_later():
            """More is dropped than the revision does, once a node enforces it: what no plan could tell."""
            first.wait("the revision", lambda: first.call("explain", key="192.0.2.2")["as_source"]["action"] == "drop")
            first.controlctl("add", "192.0.2.3", "192.0.2.4", "--list", "jail")

        other = threading.Thread(target=add_later)
        other.start()
        is_excess = rollout() and "and expected" in told[-1]
        other.join()
    stopped = int(is_refused) + int(is_excess)
    return [at_least("fleet.canary_stopped", 1 if stopped == 2 else 0, 1, "-", "; ".join(told))], told


MEASUREMENTS = ((("fleet.canary_stopped",), canary),)

if __name__ == "__main__":
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as here:
        try:
            print(canary(os.path.abspath(sys.argv[1]), here)[0][0].line())
        except SessionError as error:
            sys.exit(str(error))
