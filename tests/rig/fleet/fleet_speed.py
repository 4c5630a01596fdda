"""How soon a fleet of real nodes, each a controld with a data plane, enforces what is pushed and added, and goes back.

    python3 tests/rig/fleet/fleet_speed.py [--nodes N] [--entries N] [--adds N] [--build DIR]

Everything runs on this machine: its processors do the work of all nodes and of three members of etcd. Standard library only.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from figure import at_most, reported
from fleet_rig import Etcd, Node, Operator
from session import ROOT, Memory, SessionError, ensure_built
from until import until

NODES, ENTRIES, ADDS, ROUNDS = 10, 1_000_000, 100, 5
PUSH_LIMIT_S, ADD_LIMIT_S, BACK_LIMIT_S = 3, 1, 3
DATAPLANE = "forward: sink\nports: [{port: 0, queues: 1}]\nidle: {mode: interrupt}"
WAIT_SECONDS = 300


def write_policy(folder, entries, changed):
    """changed: so many of the entries are others than with 0."""
    os.makedirs(os.path.join(folder, "feeds"), exist_ok=True)
    with open(os.path.join(folder, "feeds", "big.txt"), "w", encoding="ascii") as file:
        for number in range(entries):
            at = number + (entries if number < changed else 0)
            value = (at * 2654435761) % (1 << 32)  # scattered; each once
            file.write(f"{1 + (value >> 24) % 223}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}\n")
    with open(os.path.join(folder, "weir.yaml"), "w", encoding="ascii") as file:
        file.write("version: 1\nlists:\n  - {name: big, action: drop, file: feeds/big.txt, guard: {reserved: keep, max_growth: 10000x}}\n"
                   "  - {name: jail, action: drop, dynamic: true}\n")


@contextlib.contextmanager
def fleet(build, nodes, folder):
    """(Etcd, nodes, Operator), everything started."""
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd())
        started = []
        for number in range(nodes):
            node = stack.enter_context(Node(build, etcd, f"n{number}", group="canary" if number == 0 else "rest"))
            node.start_dataplane(DATAPLANE, ["net_null0"], memory=Memory(2048, 1518))
            node.start()
            node.wait_enforced()
            started.append(node)
        yield etcd, started, Operator(build, etcd, folder)


def until_enforced(operator, revision, nodes):
    """Until every node says that its targets enforce the revision."""
    def is_enforced():
        found = operator.nodes().values()
        return sum(one["revision"] == revision and one["state"] == "enforcing" for one in found) == nodes

    until(f"revision {revision} to be enforced by all nodes", is_enforced, WAIT_SECONDS, SessionError, about=lambda: f": {operator.nodes()}")


def timed_push(operator, nodes):
    start = time.monotonic()
    pushed = operator.fleet("push", "weir.yaml")
    sent = time.monotonic()
    until_enforced(operator, pushed["revision"], nodes)
    return time.monotonic() - start, sent - start


def measure(build, nodes, entries, adds):
    with tempfile.TemporaryDirectory(prefix="weir-operator-") as folder, fleet(build, nodes, folder) as (_, _, operator):
        runs = {"whole_s": [], "little_s": [], "sent_s": [], "add_s": [], "back_s": []}
        write_policy(folder, entries, 0)
        whole, sent = timed_push(operator, nodes)
        runs["whole_s"].append(whole)
        runs["sent_s"].append(sent)
        for number in range(ROUNDS):
            write_policy(folder, entries, 100 * (number + 1))
            little, sent = timed_push(operator, nodes)
            runs["little_s"].append(little)
            runs["sent_s"].append(sent)
        for number in range(adds):
            start = time.monotonic()
            answer = operator.fleet("add", f"198.19.{number >> 8}.{number & 255}", "--enforced", "30s")
            runs["add_s"].append(time.monotonic() - start)
            if answer["waiting"]:
                raise SessionError(f"an entry is not enforced everywhere after 30 s: {answer}")
        for _ in range(ROUNDS):
            start = time.monotonic()
            back = operator.fleet("rollback")
            until_enforced(operator, back["revision"], nodes)
            runs["back_s"].append(time.monotonic() - start)
    return runs


def figures(build, nodes=NODES, entries=ENTRIES, adds=ADDS):
    runs = measure(build, nodes, entries, adds)
    machine = f"{nodes} nodes and 3 members of etcd on {os.cpu_count()} processors"
    little, add, back = runs["little_s"], sorted(runs["add_s"]), runs["back_s"]
    return [
        at_most("fleet.push_s", statistics.median(little), PUSH_LIMIT_S, "s",
                f"from `fleet push` of {entries} entries, 100 of them new, until all enforce them: median of {len(little)}, most {max(little):.2f}, of "
                f"which sending takes {statistics.median(runs['sent_s']):.2f}; {machine}"),
        reported("fleet.first_push_s", runs["whole_s"][0], "s", f"the same of {entries} entries that no node has: {machine}"),
        at_most("fleet.add_s_p99", add[min(len(add) - 1, int(len(add) * 0.99))], ADD_LIMIT_S, "s",
                f"from `fleet add` until all enforce it, of {len(add)}: median {statistics.median(add):.3f}, most {add[-1]:.3f}; {machine}"),
        at_most("fleet.rollback_s", statistics.median(back), BACK_LIMIT_S, "s", f"median of {len(back)}, most {max(back):.2f}; {machine}"),
    ], runs


MEASUREMENTS = ((("fleet.push_s", "fleet.first_push_s", "fleet.add_s_p99", "fleet.rollback_s"), lambda build, _folder: figures(build)),)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--adds", type=int, default=ADDS)
    arguments = parser.parse_args()
    ensure_built(arguments.build)
    found, _ = figures(os.path.abspath(arguments.build), arguments.nodes, arguments.entries, arguments.adds)
    for figure in found:
        print(figure.line())
    return 1 if any(figure.status == "short" for figure in found) else 0


if __name__ == "__main__":
    sys.exit(main())
