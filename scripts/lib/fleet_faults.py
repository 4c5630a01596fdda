"""Faults of a fleet: nodes and members of etcd are killed, stopped and cut off at random while policies are pushed and entries added.

    python3 scripts/lib/fleet_faults.py [--faults N] [--nodes N] [--seed N] [--build DIR]

At any time: no node enforces a revision of an earlier turn after one of a later (it says which it enforces in its log, over its
restarts too). In the end: each node enforces the newest revision, holds exactly the entries that were acknowledged and neither deleted
nor ended, and judges by them. Prints what went wrong; exit code 1 when anything did. Standard library only.
"""

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time

from fleet_rig import Etcd, Node, Operator
from session import ROOT, SessionError

TAKEN = re.compile(r'fleet: a revision is enforced .*revision=(\d+) turn=(\d+)')
STARTED = re.compile(r'a node of a fleet .*revision=(\d+) turn=(\d+)')
SETTLE_SECONDS = 60
PAUSES = (0.2, 2.5)


def policy(revision):
    """Each revision can be told from the others by what it drops."""
    return (f"version: 1\nlists:\n  - {{name: rev, action: drop, entries: [198.18.{revision >> 8}.{revision & 255}]}}\n"
            "  - {name: jail, action: drop, dynamic: true}\n")


class Faults:
    def __init__(self, build, etcd, nodes, operator, seed):
        self.build, self.etcd, self.nodes, self.operator = build, etcd, nodes, operator
        self.random = random.Random(seed)
        self.revision = 0          # that was acknowledged last
        self.entries = {}          # acknowledged and not deleted: text -> when it ends (monotonic), or None
        self.doubtful = set()      # neither acknowledged nor refused
        self.next_entry = 0
        self.late = []             # (when, what to do): ends of faults
        self.done = {}             # by kind

    def at(self, seconds, action):
        self.late.append((time.monotonic() + seconds, action))

    def run_late(self, everything=False):
        now = time.monotonic()
        due = [action for when, action in self.late if everything or when <= now]
        self.late = [] if everything else [one for one in self.late if one[0] > now]
        for action in due:
            action()

    # --- what people do ---

    def push(self):
        path = os.path.join(self.operator.folder, "weir.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write(policy(self.pushes + 1))
        code, answer, _ = self.operator.try_fleet("push", "weir.yaml")
        self.pushes += 1
        if code == 0:
            self.revision, self.marker = answer["revision"], self.pushes

    pushes = 0
    marker = 0

    def add(self):
        self.next_entry += 1
        text = f"203.0.{self.next_entry >> 8}.{self.next_entry & 255}"
        ttl = self.random.choice((None, None, 3, 3600))
        code, _, _ = self.operator.try_fleet("add", text, *(["--ttl", f"{ttl}s"] if ttl else []))
        if code == 0:
            self.entries[text] = time.monotonic() + ttl if ttl else None
        else:
            self.doubtful.add(text)

    def delete(self):
        if not self.entries:
            return
        text = self.random.choice(sorted(self.entries))
        code, _, _ = self.operator.try_fleet("del", text)
        self.entries.pop(text)
        if code != 0:
            self.doubtful.add(text)

    # --- what goes wrong ---

    def running(self):
        return [node for node in self.nodes if node.controld and not node.is_stopped]

    def kill_node(self):
        if not (nodes := self.running()):
            return
        node = self.random.choice(nodes)
        node.kill("controld")
        self.at(self.random.uniform(*PAUSES), node.start)

    def stop_node(self):
        if not (nodes := self.running()):
            return
        node = self.random.choice(nodes)
        node.is_stopped = True
        node.controld.send_signal(signal.SIGSTOP)

        def go_on():
            node.is_stopped = False
            node.controld.send_signal(signal.SIGCONT)

        self.at(self.random.uniform(*PAUSES), go_on)

    def kill_follower(self):
        """The process that speaks to etcd."""
        if nodes := self.running():
            node = self.random.choice(nodes)
            os.system(f"pkill -KILL -x weir-fleet --pgroup {os.getpgid(node.controld.pid)}")

    def members_up(self):
        return [member for member, process in enumerate(self.etcd.processes) if process and member not in self.stopped_members]

    stopped_members = ()

    def some_member(self):
        """Now and then the last but one: then etcd takes nothing for a while."""
        members = self.members_up()
        if not members or (len(members) < 3 and self.random.random() < 0.8):
            return None
        return self.random.choice(members)

    def kill_member(self):
        if (member := self.some_member()) is None:
            return
        self.etcd.kill(member)
        self.at(self.random.uniform(*PAUSES), lambda: self.etcd.start(member))

    def stop_member(self):
        if (member := self.some_member()) is None:
            return
        self.stopped_members = {*self.stopped_members, member}
        self.etcd.processes[member].send_signal(signal.SIGSTOP)

        def go_on():
            self.stopped_members = self.stopped_members - {member}
            self.etcd.processes[member].send_signal(signal.SIGCONT)

        self.at(self.random.uniform(*PAUSES), go_on)

    def one(self):
        kind = self.random.choice(("kill_node", "stop_node", "kill_follower", "kill_member", "stop_member"))
        getattr(self, kind)()
        self.done[kind] = self.done.get(kind, 0) + 1
        for action in self.random.choices((self.push, self.add, self.delete), (2, 3, 1), k=2):
            action()
        self.run_late()
        time.sleep(self.random.uniform(0, 0.3))

    # --- what must hold ---

    def older(self):
        """(node, text): revisions of an earlier turn that came after one of a later."""
        found = []
        for node in self.nodes:
            last = 0
            for line in node.log("controld").splitlines():
                if match := TAKEN.search(line) or STARTED.search(line):
                    revision = int(match[1])
                    if revision != 0 and revision < last:  # nobody rolls back here
                        found.append((node.name, f"revision {revision} after {last}: {line}"))
                    last = max(last, revision)
        return found

    def settle(self):
        """What is wrong in the end."""
        self.run_late(everything=True)
        self.etcd.wait(60)
        self.push()
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            nodes = self.operator.nodes()
            if all(nodes.get(node.name, {}).get("revision") == self.revision for node in self.nodes):
                break
            time.sleep(0.2)
        while time.monotonic() < deadline and any(self.wrong_entries(node) for node in self.nodes):
            time.sleep(0.5)
        problems = [f"{name}: {text}" for name, text in self.older()]
        marker = f"198.18.{self.marker >> 8}.{self.marker & 255}"
        for node in self.nodes:
            if node.controlctl("test", "-q", marker)[0] != 0:
                problems.append(f"{node.name} does not enforce revision {self.revision}: {self.operator.nodes().get(node.name)}")
            problems += [f"{node.name}: {text}" for text in self.wrong_entries(node)]
        return problems

    def wrong_entries(self, node):
        now = time.monotonic()
        wanted = {text for text, end in self.entries.items() if end is None or end > now + 1}
        may_be = wanted | self.doubtful | {text for text, end in self.entries.items() if end is not None and abs(end - now) < 10}
        held, after = set(), None
        while True:
            answer = node.call("entries", name="jail", **({"after": after} if after else {}))
            held |= {entry["entry"] for entry in answer["entries"] if not entry.get("expired")}
            after = answer.get("next")
            if not after:
                break
        return [f"entry {text} was acknowledged and is missing" for text in sorted(wanted - held)] + \
               [f"entry {text} is there and should not be" for text in sorted(held - may_be)]


def run(build, faults, nodes, seed, say=print):
    """(problems, older revisions, faults by kind, revisions pushed)"""
    folder = tempfile.mkdtemp(prefix="weir-operator-")
    try:
        with Etcd() as etcd:
            started = []
            try:
                for number in range(nodes):
                    node = Node(build, etcd, f"n{number}", more="targets: []\n")
                    node.is_stopped = False
                    started.append(node)
                    node.has_dataplane = False
                    node.start()
                rig = Faults(build, etcd, started, Operator(build, etcd, folder), seed)
                rig.push()
                for number in range(faults):
                    rig.one()
                    if number % 20 == 19:
                        say(f"fleet: {number + 1} of {faults} faults, revision {rig.revision}, {len(rig.entries)} entries")
                problems = rig.settle()
                return problems, rig.older(), rig.done, rig.pushes
            finally:
                for node in started:
                    if node.controld and node.is_stopped:
                        node.controld.send_signal(signal.SIGCONT)
                    node.__exit__()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    arguments = parser.parse_args()
    print(f"fleet: seed {arguments.seed}", flush=True)
    try:
        problems, _, done, pushes = run(arguments.build, arguments.faults, arguments.nodes, arguments.seed)
    except SessionError as error:
        problems, done, pushes = [str(error)], {}, 0
    print(f"fleet: faults {done}, {pushes} revisions: {len(problems)} problems")
    for problem in problems[:40]:
        print("  " + problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
