"""What travels: flows in both directions, the policies that judge them, and what each frame has to become.

Side 0 is the card's first port, where the clients are; side 1 is the second one. Lists match either side of a packet,
so both directions of a flow have the same verdict.
"""

import os
import struct
import sys
from collections import Counter
from dataclasses import dataclass

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rig"))
import rooms  # noqa: E402,F401
from frames import TCP, UDP, V4, V6, Data, Ethernet, Vlan, WithPorts, assemble, number_of  # noqa: E402

MARK = struct.Struct(">4sI")  # the end of every frame
MAGIC = b"weir"
SHORTEST = 60                 # without FCS; cards make shorter ones longer
ARP, HTTPS = 0x0806, 443
SIZES = (0, 64, 256, 1000, 1e9)  # bytes wanted; cut to what fits a frame
MTU = 1500

# In the order of the policy file. What changes from policy to policy: `turns`.
ACTIONS = {"allowed": "pass", "blocked": "drop", "services": "drop", "watched": "monitor", "turns": "drop"}
TURN = ("even", "odd")        # policy n drops TURN[n % 2]


@dataclass(frozen=True)
class Kind:
    """Flows that differ by their addresses only."""

    name: str
    family: int        # 4, 6; 0: no IP
    client: str        # the first of them
    lists: tuple = ()  # that match
    count: int = 4
    protocol: int = UDP
    port: int = 53     # of the server
    tags: tuple = ()
    later_fragment: bool = False
    turn: str = ""     # in the list `turns` of every other policy


KINDS = (
    Kind("udp4", 4, "10.1.0.1", count=16),
    Kind("tcp4", 4, "10.2.0.1", protocol=TCP),
    Kind("udp6", 6, "2001:db8:1::1", count=8),
    Kind("tcp6", 6, "2001:db8:2::1", protocol=TCP),
    Kind("vlan-udp4", 4, "10.3.0.1", tags=(0x8100,)),
    Kind("vlan-tcp6", 6, "2001:db8:3::1", tags=(0x8100,), protocol=TCP),
    Kind("two-tags-udp4", 4, "10.4.0.1", tags=(0x88a8, 0x8100)),
    Kind("fragment4", 4, "10.5.0.1", later_fragment=True, count=1),
    Kind("arp", 0, "0.0.0.0", count=1),
    Kind("watched4", 4, "10.6.0.1", ("watched",)),
    Kind("allowed4", 4, "10.20.7.1", ("allowed", "blocked")),
    Kind("blocked-udp4", 4, "10.20.0.1", ("blocked",)),
    Kind("blocked-host4", 4, "10.21.0.1", ("blocked",), count=2),
    Kind("blocked-vlan4", 4, "10.20.1.1", ("blocked",), tags=(0x8100,)),
    Kind("blocked-tcp6", 6, "2001:db8:20::1", ("blocked",), protocol=TCP),
    Kind("blocked-watched4", 4, "10.20.2.1", ("blocked", "watched"), count=2),
    Kind("blocked-service4", 4, "10.7.0.1", ("services",), count=2, port=HTTPS),
    Kind("even4", 4, "10.30.0.2", count=2, turn="even"),
    Kind("odd4", 4, "10.31.0.1", count=2, turn="odd"),
    Kind("even6", 6, "2001:db8:30::2", count=2, turn="even"),
    Kind("odd6", 6, "2001:db8:31::1", count=2, turn="odd"),
)

SERVER = {4: "192.0.2.1", 6: "2001:db8:ffff::1"}
POLICY = """version: 1
policy: {{default: pass}}
lists:
  - {{name: allowed, action: pass, match: either, entries: [10.20.7.0/24]}}
  - name: blocked
    action: drop
    match: either
    file: threats.txt
    entries: [10.20.0.0/16, 10.21.0.1, 10.21.0.2, "2001:db8:20::/48"]
  - {{name: services, action: drop, match: either, entries: ["192.0.2.1:443", "192.0.2.2:443"]}}
  - {{name: watched, action: drop, mode: monitor, match: either, entries: [10.6.0.0/24, 10.20.2.0/24]}}
  - {{name: turns, action: drop, match: either, entries: [{turns}]}}
"""


@dataclass(frozen=True)
class Flow:
    kind: Kind
    number: int  # within its kind

    def __str__(self):
        return f"{self.kind.name} {self.number}"

    def frame(self, side, mark, size):
        """What enters at a side. size: about so many bytes."""
        kind = self.kind
        headers = [Ethernet(), *(Vlan(tag) for tag in kind.tags)]
        room = MTU + 14 + (4 if kind.tags else 0)  # what every card takes: one tag above the MTU
        if kind.family:
            client, server = number_of(kind.client) + self.number, number_of(SERVER[kind.family]) + self.number
            ends = (client, server) if side == 0 else (server, client)
            ports = (40000 + self.number, kind.port)
            if kind.family == 4:
                headers.append(V4(*ends, fragment=185 if kind.later_fragment else 0))  # in units of 8 bytes
            else:
                headers.append(V6(*ends))
            if not kind.later_fragment:
                headers.append(WithPorts(kind.protocol, *(ports if side == 0 else ports[::-1])))
            content = Data(number=kind.protocol)
        else:
            content = Data(ethertype=ARP)
        content.content = b""
        empty = len(assemble([*headers, content]))
        bytes_in_all = max(SHORTEST, min(int(size), room), empty + MARK.size)
        content.content = bytes(bytes_in_all - empty - MARK.size) + MARK.pack(MAGIC, mark)
        return assemble([*headers, content])

    def lists(self, policy):
        """Those that match under a policy."""
        turns = ("turns",) if self.kind.turn == TURN[policy % 2] else ()
        return self.kind.lists + turns

    def credited(self, policy):
        """The list that has the verdict, or None."""
        matching = [name for name in ACTIONS if name in self.lists(policy)]
        for action in ("pass", "drop"):
            for name in matching:
                if ACTIONS[name] == action:
                    return name
        return None

    def passes(self, policy):
        name = self.credited(policy)
        return name is None or ACTIONS[name] == "pass"

    def always_passes(self):
        return self.passes(0) and self.passes(1)


FLOWS = [Flow(kind, number) for kind in KINDS for number in range(kind.count)]
TURNING = [flow for flow in FLOWS if flow.kind.turn]
HELLO = FLOWS[0]


def policy_text(policy):
    """The policy file number `policy`."""
    entries = []
    for flow in TURNING:
        if flow.kind.turn == TURN[policy % 2]:
            prefix, last = flow.kind.client.rsplit(":" if flow.kind.family == 6 else ".", 1)
            address = f"{prefix}{':' if flow.kind.family == 6 else '.'}{int(last) + flow.number}"
            entries.append(f'"{address}"')
    return POLICY.format(turns=", ".join(entries))


def threats():
    """A feed that no flow meets, for the filters to have some size."""
    return "".join(f"172.{16 + n // 65536}.{n // 256 % 256}.{n % 256}\n" for n in range(0, 60000, 29))


def expected_counters(judged):
    """(totals, lists) that grow by the frames of (flow, policy, frame)."""
    totals, lists = Counter(), {name: Counter() for name in ACTIONS}
    for flow, policy, frame in judged:
        totals["packets"] += 1
        totals["bytes"] += len(frame)
        passes = flow.passes(policy)
        totals["passed" if passes else "dropped"] += 1
        credited = flow.credited(policy)
        if flow.kind.family == 0:
            totals["not_ip"] += 1
        elif credited is None:
            totals["default_passed"] += 1
        matching = flow.lists(policy)
        for name in matching:
            lists[name]["matched"] += 1
            lists[name]["matched_bytes"] += len(frame)
            if ACTIONS[name] == "monitor" and "allowed" not in matching:
                lists[name]["would_drop"] += 1
        if credited:
            lists[credited]["passed" if passes else "dropped"] += 1
            if not passes:
                lists[credited]["dropped_bytes"] += len(frame)
    totals["tx_packets"] = totals["passed"]
    return totals, lists
