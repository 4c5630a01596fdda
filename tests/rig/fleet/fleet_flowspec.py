"""What BGP FlowSpec brings into weir, beside what it means (fleet.flowspec_wrong): random rules of the real ExaBGP and of the real GoBGP, and those
of RFC 8955's examples, each speaker's in one session; then frames near them, judged by a real data plane and by flowspec_rules.py. Run alone it
prints the figure."""

import argparse
import ipaddress
import json
import os
import random
import subprocess
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from capture import Capture, read_capture, sort_out, write_capture
from figure import Figure, at_most
from flowspec_peers import PEERS
from flowspec_rules import (DESTINATION, DONT, EQUAL, FIRST, FRAGMENT, GREATER, LESS, PORT, PROTOCOL, SOURCE, TCP, Rule, frame_near, random_rules,
                            read_frame)
from rig import say
from session import ROOT, Memory, Session, SessionError, ensure_built, tail
from until import until

RULES, FRAMES = 1000, 20_000  # of each speaker
SEED = 8955
POLICY = """version: 1
filter: {memory: 1GiB}
lists:
  - {name: rules, action: drop, dynamic: true, allow_any: true}
"""
NOTHING = "no packet can match it"


def rfc_examples():
    """RFC 8955, section 4.3. The third one asks for a bit that weir does not look at: it is refused. Those of RFC 8956 have prefixes that begin
    behind bit 0, which neither speaker writes as it says: tests/unit/control/sources/flowspec has their bytes."""
    network = ipaddress.ip_network("192.0.2.0/24")
    return [
        Rule(4, {DESTINATION: network, PROTOCOL: [(False, EQUAL, TCP)], PORT: [(False, EQUAL, 25)]}),
        Rule(4, {DESTINATION: network, SOURCE: ipaddress.ip_network("203.0.113.0/24"),
                 PORT: [(False, GREATER | EQUAL, 137), (True, LESS | EQUAL, 139), (False, EQUAL, 8080)]}),
        Rule(4, {DESTINATION: ipaddress.ip_network("192.0.2.1/32"), FRAGMENT: [(False, 0, DONT | FIRST)]}, refused="fragment"),
    ]


class Speaker:
    """`controlctl flowspec` beside a peer."""

    def __init__(self, session, peer, *options):
        self.session, self.peer = session, peer
        self.out, self.err = peer.path("flowspec.json"), peer.path("flowspec.log")
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                [os.path.join(session.build, "control/controlctl"), "flowspec", "--json", "--socket", session.path("controld.sock"),
                 *peer.options(), *options], env=dict(os.environ, **session.environment), stdout=out, stderr=err, start_new_session=True)
        session.at_exit(self.stop)

    def lines(self):
        with open(self.out, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def status(self):
        found = [line for line in self.lines() if "state" in line]
        return found[-1] if found else dict.fromkeys(("state", "rules", "refused", "entries", "announced", "pending"), 0)

    def refusals(self):
        return {line["refused"]: line["reason"] for line in self.lines() if "reason" in line}

    def log(self):
        with open(self.err, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, what, test, seconds=120):
        def ended():
            return "" if self.process.poll() is None else f"controlctl flowspec ended with {self.process.returncode}:\n{tail(self.log())}\n"

        until(what, lambda: test(self.status()), seconds, SessionError, ended,
              lambda: f": {self.status()}\n{tail(self.log())}\n{tail(self.peer.log())}", 0.05)

    def wait_for(self, rules, seconds=120):
        """Until so many are announced, and the list has what they become and no more."""
        self.wait(f"{rules} rules", lambda status: status["rules"] == rules and status["pending"] == 0 and
                  status["state"] == "established", seconds)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(60)


def drops_of_plane(session, frames):
    """Numbers of the frames that a data plane drops. It starts now, and reads them once."""
    capture = Capture(frames=frames, headers=[(number, 0, len(frame)) for number, frame in enumerate(frames)])
    write_capture(session.path("in.pcap"), capture)
    session.start_dataplane("forward: pair\ndrop_port: 2\nports: [{port: 0, queues: 1}, {port: 1, queues: 1}]",
                            ["net_pcap0,rx_pcap=in.pcap", "net_pcap1,tx_pcap=passed.pcap", "net_pcap2,tx_pcap=dropped.pcap"], 1,
                            Memory(8192, capture.longest()))
    session.wait_enforced()
    session.wait("every frame to be judged", lambda: session.stats()["packets"] == len(frames))
    session.stop("dataplane")  # its ports close their files
    return set(sort_out(frames, read_capture(session.path("passed.pcap")).frames, read_capture(session.path("dropped.pcap")).frames)[1])


def unexplained(refusals, rules):
    """Rules that were refused, and should not have been; and how many should have been, and were not."""
    words = [rule.refused for rule in rules if rule.refused]
    wrong = [f"{rule}: {reason}" for rule, reason in refusals.items()
             if reason != NOTHING and not any(word in reason for word in words)]
    explained = sum(any(word in reason for word in set(words)) for reason in refusals.values())
    nothing = sum(reason == NOTHING for reason in refusals.values())  # which is said first where both are true
    return wrong, max(0, len(words) - explained - nothing)


def measure(build, peer_class, rules=RULES, frames=FRAMES, seed=SEED):
    """Differences of one speaker, as texts, and what there was."""
    chosen = random.Random(f"{seed} {peer_class.program}")
    announced = rfc_examples() + random_rules(chosen, rules)
    with Session(build) as session:
        with open(session.path("flowspec.yaml"), "w", encoding="utf-8") as file:
            file.write(POLICY)
        session.start_controld(session.path("flowspec.yaml"))
        with peer_class(session.path("peer")) as peer:
            speaker = Speaker(session, peer)
            speaker.wait("a session", lambda status: status["state"] == "established")
            began = time.monotonic()
            peer.announce(announced)
            speaker.wait_for(len(announced), 600)
            seconds = time.monotonic() - began
            refusals = speaker.refusals()
            wrong, not_refused = unexplained(refusals, announced)
            if not_refused:
                wrong.append(f"{not_refused} rules that weir has no entries for were not refused")
            in_force = [rule for rule in announced if not rule.refused]
            packets = [frame_near(chosen, chosen.choice(in_force)) for _ in range(frames)]
            dropped = drops_of_plane(session, packets)
            matched = set()
            for number, frame in enumerate(packets):
                packet = read_frame(frame)
                if any(rule.matches(packet) for rule in in_force):
                    matched.add(number)
            for number in sorted(dropped ^ matched):
                verdict = "drops" if number in dropped else "passes"
                explained = session.call("explain", frame=packets[number].hex()).get("verdict", {}).get("because")
                wrong.append(f"weir {verdict} {packets[number].hex()}: {read_frame(packets[number])} {explained}")
            facts = {"rules": len(announced), "refused": len(refusals), "entries": speaker.status()["entries"], "frames": len(packets),
                     "dropped": len(dropped), "seconds": round(seconds, 2)}
            # All of it goes as it came.
            peer.withdraw(announced)
            speaker.wait_for(0, 600)
            left = session.call("entries", name="rules")["entries"]
            if left:
                wrong.append(f"{len(left)} entries are left when all rules are withdrawn: {left[0]['entry']}")
            return wrong, facts


def figure(build, rules=RULES, frames=FRAMES, seed=SEED):
    name = "fleet.flowspec_wrong"
    missing = [peer.program for peer in PEERS if peer.missing()]
    if missing:
        return Figure(name, target="0", unit="verdicts", status="skipped", note=f"no {', '.join(missing)}: scripts/setup test", missing_here=True)
    wrong, notes = [], []
    for peer in PEERS:
        say(f"fleet: {rules} rules of {peer.program}, {frames} frames")
        differs, facts = measure(build, peer, rules, frames, seed)
        for line in differs[:20]:
            say(f"{peer.program}: {line}")
        wrong += differs
        notes.append(f"{peer.program}: " + ", ".join(f"{key} {value}" for key, value in facts.items()))
    return at_most(name, len(wrong), 0, "verdicts", "; ".join(notes))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rules", type=int, default=RULES)
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    ensure_built(arguments.build)
    found = figure(arguments.build, arguments.rules, arguments.frames, arguments.seed)
    print(found.line())
    return 1 if found.status == "short" else 2 if found.status == "skipped" else 0


if __name__ == "__main__":
    sys.exit(main())
