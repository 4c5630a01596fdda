"""What is checked on each card."""

import json
import re
import time

from flows import ACTIONS, FLOWS, TURNING, expected_counters, policy_text, threats
from machine import Failed
from traffic import Tap, Traffic, describe
from until import until

ROUNDS = 8               # in which every flow sends a frame by each side, for the counters
RELOADS = 4
AFTER_RELOAD = 2         # frames of every flow and side under a policy, at least
READY_SECONDS = 480
MIN_RSS_SHARE = 0.1      # of the flows, for the worker that has fewer


class CardTest:
    """One card from binding to a clean stop. failures: texts; checks: how many were made; seconds: of each part."""

    def __init__(self, machine, card, build, number):
        self.machine, self.card, self.build = machine, card, build
        self.folder = f"/run/nic/{card.name}"
        self.taps = [Tap(machine.tap(card, port), card.queues, 2 * number + port) for port in range(2)]
        self.traffic = Traffic(self.taps)
        self.failures, self.checks, self.seconds, self.log = [], 0, {}, ""

    def check(self, good, text):
        self.checks += 1
        if not good:
            self.failures.append(text)

    def equal(self, found, expected, what):
        self.check(found == expected, f"{what}: found {found}, expected {expected}")

    def run(self):
        """All of it. A part that fails ends the test of this card."""
        try:
            parts = [self.bind, self.start, self.late_link, self.counters, self.reloads]
            parts += [self.workers] * (self.card.queues > 1) + [self.numa] * self.machine.guest.numa
            for part in parts:
                self.timed(part)
        except Failed as failure:
            self.check(False, f"{failure}\ndataplane:\n{self.log_tail()}")
        finally:
            self.timed(self.stop)
            for tap in self.taps:
                tap.close()

    def timed(self, part):
        start = time.monotonic()
        part()
        self.seconds[part.__name__] = round(time.monotonic() - start, 1)

    def log_tail(self):
        try:
            return "\n".join(self.machine.ask("text", path=f"{self.folder}/dataplane.log").splitlines()[-20:])
        except Failed as failure:
            return str(failure)

    # Start.

    def bind(self):
        for port in range(2):
            bound = self.machine.ask("bind", address=self.machine.address(self.card, port), driver=self.card.bound_to)
            self.equal((bound["id"], bound["driver"]), (self.card.pci_id, self.card.bound_to),
                       "PCI device and its driver")
            if bound["driver"] != self.card.bound_to:
                raise Failed(f"{self.card.bound_to} does not take the device")

    def start(self):
        machine, card, folder = self.machine, self.card, self.folder
        machine.ask("put", path=f"{folder}/threats.txt", content=threats())
        machine.ask("put", path=f"{folder}/policy.yaml", content=policy_text(0))
        machine.ask("put", path=f"{folder}/dataplane.yaml", content=
                    "forward: pair\n"
                    f"ports: [{{port: 0, queues: {card.queues}}}, {{port: 1, queues: {card.queues}}}]\n"
                    "privileges: {user: root}\n")
        for port in range(2):
            machine.set_link(machine.tap(card, port), False)
        self.nodes_before = machine.ask("nodes")
        workers = ",".join(str(cpu) for cpu in range(1, 1 + card.queues))
        command = [f"{self.build}/dataplane/dataplane", "-l", workers, "-d", card.library, "--log-level=lib.eal:info"]
        command += ["-d", "librte_mempool_ring.so", "-d", "librte_bus_pci.so"]  # all drivers take 20 s to load here
        for port in range(2):
            command += ["-a", machine.address(card, port)]
        command += ["--", "--config", f"{folder}/dataplane.yaml", "--socket", f"{folder}/dataplane.sock", "--state-dir",
                    f"{folder}/dataplane-state", "--wait-for-snapshot"]
        machine.ask("start", name="dataplane", command=command, folder=folder,
                    environment={"WEIR_FORCE_ISA": card.isa} if card.isa else {})
        machine.ask("start", name="controld", folder=folder, environment={}, command=[
            f"{self.build}/control/controld", "--config", f"{folder}/policy.yaml", "--socket",
            f"{folder}/controld.sock", "--state-dir", f"{folder}/controld-state", "--target",
            f"{folder}/dataplane.sock", "--metrics", "off"])
        self.wait("the data plane to enforce the policy", self.enforced)
        self.log = machine.ask("text", path=f"{folder}/dataplane.log")
        drivers = re.findall(r"^ *\d+ .*\b(net_\w+)", self.log, re.MULTILINE)
        self.equal(drivers, [card.driver] * 2, "drivers in the table of ports")
        isa = re.search(r"\brunning kernels=(\w+)", self.log)
        self.equal(isa and isa.group(1), card.isa or machine.guest.isa,
                   f"instruction set chosen on {machine.guest.cpu}")

    def enforced(self):
        for name in ("dataplane", "controld"):
            code = self.machine.ask("ended", name=name)
            if code is not None:
                text = self.machine.ask("text", path=f"{self.folder}/{name}.log")
                raise Failed(f"{name} ended with {code} at its start: {text.splitlines()[-10:]}")
        if not self.machine.ask("can_connect", path=f"{self.folder}/controld.sock", kind="SOCK_STREAM"):
            return False
        target, = self.call("status")["targets"]
        if target["last_error"] and target["connected"] and not target["acknowledged"]:
            raise Failed(f"the data plane refused the policy: {target['last_error']}")
        return target["connected"] and target["acknowledged"]

    def wait(self, what, test):
        until(what, test, READY_SECONDS, Failed, turn=0.2)

    def call(self, command):
        return self.machine.ask("call", path=f"{self.folder}/controld.sock", request={"command": command})

    def controlctl(self, *arguments):
        return [f"{self.build}/control/controlctl", *arguments, "--socket", f"{self.folder}/controld.sock", "--json"]

    # With traffic.

    def late_link(self):
        """Cables were out when the ports were started."""
        for port in range(2):
            self.machine.set_link(self.machine.tap(self.card, port), True)
        self.traffic.find_link()
        self.check(True, "the link came up late")

    def stats(self):
        done = self.machine.ask("run", command=self.controlctl("stats"))
        if done["code"] != 0:
            raise Failed(f"controlctl stats ended with {done['code']}: {done['err']}")
        return json.loads(done["out"])

    def settled_stats(self, packets):
        """Counters once so many packets were counted, or no more come."""
        def are_counted():
            answer = self.call("stats")
            return answer["packets"] >= packets and answer["targets"][0]["fresh"]

        until("packets to be counted", are_counted, READY_SECONDS, error=None, turn=0.1)
        return self.stats()

    def counters(self):
        """Each frame that passes arrives unchanged once, no other one does, and every counter is exact."""
        traffic = self.traffic
        before, first = self.stats(), len(traffic.sent)
        start = list(traffic.next_flow)
        while min(now - then for now, then in zip(traffic.next_flow, start)) < ROUNDS * len(FLOWS):
            traffic.step((0, 0))
        traffic.settle((0, 0))
        sent = traffic.sent[first:]
        after = self.settled_stats(before["packets"] + len(sent))
        self.check_arrivals(first)
        wrong = describe("came out although the policy drops them", [
            (number, one) for number, one in enumerate(sent, first) if one.copies and not one.flow.passes(0)])
        self.check(not wrong, wrong)
        self.check_counters(before, after, [(one.flow, 0, one.frame) for one in sent])

    def check_arrivals(self, first):
        lost = self.traffic.lost(first)
        self.check(not lost, lost)
        problems = self.traffic.problems
        self.check(not problems, f"{len(problems)} problems with frames: {'; '.join(problems[:3])}")
        self.traffic.problems = []

    def check_counters(self, before, after, judged):
        totals, lists = expected_counters(judged)
        for name in ("packets", "bytes", "passed", "dropped", "not_ip", "malformed", "incomplete", "default_passed",
                     "default_dropped", "bypassed", "no_snapshot_passed", "tx_packets", "tx_lost", "rx_missed"):
            self.equal(after[name] - before[name], totals[name], f"counter {name}")
        for name in ACTIONS:
            old, new = (stats["lists"].get(name, {}) for stats in (before, after))
            for counter in ("matched", "dropped", "passed", "would_drop", "matched_bytes", "dropped_bytes"):
                self.equal(new.get(counter, 0) - old.get(counter, 0), lists[name][counter], f"list {name}: {counter}")

    def reloads(self):
        """The policy changes while frames travel: each frame is judged by one policy, none that both pass is lost."""
        traffic, machine = self.traffic, self.machine
        before, first = self.stats(), len(traffic.sent)
        self.send_rounds((0, 0))
        for policy in range(1, RELOADS + 1):
            machine.ask("put", path=f"{self.folder}/policy.yaml", content=policy_text(policy))
            machine.send("run", command=self.controlctl("reload"))
            while not (answer := machine.poll(0.0001)):
                traffic.step((policy - 1, policy))
            self.equal(answer[0]["code"], 0, f"controlctl reload {policy}: {answer[0]['err']}")
            self.send_rounds((policy, policy))
            traffic.settle((policy, policy))
        after = self.settled_stats(before["packets"] + len(traffic.sent) - first)
        self.check_arrivals(first)
        policies, wrong = judges(traffic.sent[first:])
        self.check(not wrong, f"{len(wrong)} flows not judged by one policy after the other: {'; '.join(wrong[:3])}")
        if not wrong:
            self.check_counters(before, after, [(one.flow, policy, one.frame)
                                                for one, policy in zip(traffic.sent[first:], policies)])

    def send_rounds(self, era):
        start = list(self.traffic.next_flow)
        while min(now - then for now, then in zip(self.traffic.next_flow, start)) < AFTER_RELOAD * len(FLOWS):
            self.traffic.step(era)

    def workers(self):
        """A frame leaves by the queue of the worker that judged it: both have work, and each direction of a flow has one of them."""
        queues = {}
        for sent in self.traffic.sent:
            if sent.copies and sent.flow.kind.family and not sent.flow.kind.tags:
                queues.setdefault((sent.flow, sent.side), set()).add(sent.queue)
        split = [f"{flow} from side {side}" for (flow, side), used in queues.items() if len(used) > 1]
        self.check(not split, f"{len(split)} of {len(queues)} directions of flows were with both workers: {split[:5]}")
        shares = [sum(used == {queue} for used in queues.values()) for queue in range(self.card.queues)]
        self.check(min(shares) >= MIN_RSS_SHARE * len(queues), f"directions of flows of each worker: {shares}")

    def numa(self):
        """Workers of each node have the snapshot in memory of their own node."""
        nodes = self.machine.ask("nodes")
        self.equal(sorted(nodes), ["0", "1"], "NUMA nodes")
        self.check("NUMA nodes: 2" in self.log, "DPDK does not see two NUMA nodes")
        if self.card.queues > 1:  # the last worker is on node 1
            used = self.nodes_before["1"]["free_huge_pages"] - nodes["1"]["free_huge_pages"]
            self.check(used > 0, "no huge page of node 1 is used, where the last worker is")

    # End.

    def stop(self):
        try:
            self.equal(self.machine.ask("stop", name="controld"), 0, "exit code of controld")
            self.equal(self.machine.ask("stop", name="dataplane"), 0, "exit code of the data plane")
            self.log = self.machine.ask("text", path=f"{self.folder}/dataplane.log")
            self.check(re.search(r"^\d+ mbufs, all returned$", self.log, re.MULTILINE), f"mbufs: {self.log[-300:]}")
        except Failed as failure:
            self.check(False, f"stop: {failure}")


def judges(sent):
    """The policy that judged each frame, and what cannot be explained.

    Of the policies that were asked for, a frame's is one that was not yet replaced when it was sent; along a flow they
    never go back. Frames whose flow is of no turn are judged alike by all: theirs is the policy of their time.
    """
    policies, wrong, current = [], [], {}
    for number, one in enumerate(sent):
        acknowledged, asked = one.era
        if one.flow not in TURNING:
            policies.append(acknowledged)
            continue
        key = (one.flow, one.side)
        policy = max(current.get(key, 0), acknowledged)
        while policy <= asked + 1 and one.flow.passes(policy) != (one.copies > 0):
            policy += 1
        if policy > asked + 1:
            wrong.append(f"{one.flow} by side {one.side}, frame {number}: "
                         f"{'passed' if one.copies else 'dropped'} between policies {acknowledged} and {asked}")
        current[key] = policy
        policies.append(policy)
    return policies, wrong
