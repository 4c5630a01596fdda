"""Numbered frames of many flows, and a book that tells whether each flow came back whole and in its order.

Every frame carries its flow and its number in that flow in its last 8 bytes. A flow is one kind of frame (plain, tagged, a
fragment, in a tunnel ...) with an address of one fate (unlisted, a neighbour of a listed one, exempt, monitored, blocked,
blocked by one of two policies). Standard library only.
"""

import ipaddress
import os
import random
import struct
from dataclasses import dataclass

from frames import (HOP_BY_HOP, Data, Ethernet, Extension, Fragment, Gre, Mpls, V4, V6, Vlan, Vxlan, assemble,
                    number_of, udp)
from port_draws import write_lines

FRAME_BYTES = 160            # of every frame: more than the longest headers and the tail
TAIL = struct.Struct(">II")  # flow, number in it
PASSED, DROPPED = 0, 1       # where a frame comes out
FILLING_V4, FILLING_V6 = 50_000, 5_000  # listed hosts that no frame meets
TUNNELS = ("ipip", "6in4", "gre", "vxlan")
PORT, OTHER_PORT = 4433, 4434  # of listed flows, and of flows between the same addresses

# What becomes of a flow's frames under either policy, by the fate of its address.
FATES = {"stranger": (PASSED, PASSED), "neighbour": (PASSED, PASSED), "friend": (PASSED, PASSED),
         "watched": (PASSED, PASSED), "other-port": (PASSED, PASSED), "member": (DROPPED, DROPPED),
         "port": (DROPPED, DROPPED), "even": (DROPPED, PASSED), "odd": (PASSED, DROPPED)}
HITS = ("friend", "watched", "member", "even", "odd", "port")  # fates that some list names
BY_PORT = ("port", "other-port")


def outer4():
    return V4(number_of("198.51.100.1"), number_of("198.51.100.2"))


def outer6():
    return V6(number_of("2001:db8:ffff::1"), number_of("2001:db8:ffff::2"))


# Kinds of frames: function of the IP header that decides and of what it carries. has_ports: of that header's packet.
def kinds(family):
    """{name: (headers of (ip, payload), has_ports)}"""
    both = {
        "plain": (lambda ip, rest: [Ethernet(), ip, *rest], True),
        "vlan": (lambda ip, rest: [Ethernet(), Vlan(), ip, *rest], True),
        "qinq": (lambda ip, rest: [Ethernet(), Vlan(0x88a8), Vlan(), ip, *rest], True),
        "mpls": (lambda ip, rest: [Ethernet(), Mpls(), ip, *rest], True),
        "ip-in-v4": (lambda ip, rest: [Ethernet(), outer4(), ip, *rest], True),
        "gre": (lambda ip, rest: [Ethernet(), outer4(), Gre(), ip, *rest], True),
        "vxlan": (lambda ip, rest: [Ethernet(), outer4(), udp(40000, 4789), Vxlan(), Ethernet(), ip, *rest], True),
        "gre-in-v6": (lambda ip, rest: [Ethernet(), outer6(), Gre(), ip, *rest], True),
    }
    if family == 4:
        return {**both, "first-fragment": (lambda ip, rest: [Ethernet(), fragmented(ip, 0x2000), *rest], True),
                "later-fragment": (lambda ip, rest: [Ethernet(), fragmented(ip, 0x0005), *rest], False)}
    return {**both, "options": (lambda ip, rest: [Ethernet(), ip, Extension(HOP_BY_HOP), *rest], True),
            "later-fragment": (lambda ip, rest: [Ethernet(), ip, Fragment(5, True), *rest], False)}


def fragmented(ip, fragment):
    ip.fragment = fragment
    return ip


@dataclass
class Flow:
    number: int
    name: str          # kind and fate
    fate: str
    template: bytearray
    out: tuple         # by policy


def frame_of(build, source, destination, dport):
    """Padded inside the packet to FRAME_BYTES."""
    def make(content):
        ip = (V4 if ":" not in source else V6)(number_of(source), number_of(destination))
        return assemble(build(ip, [udp(40001, dport), Data(content)]))

    return bytearray(make(bytes(FRAME_BYTES - len(make(b"")))))


class World:
    """Flows, and the two policies under which they are judged."""

    def __init__(self, seed, without=()):
        """A flow for each kind of frame and fate. without: beginnings of names of flows, as "v4 first-fragment"."""
        self.random = random.Random(seed)
        self.used, self.flows = set(), []
        self.lists = {fate: [] for fate in HITS}
        for family in (4, 6):
            for kind, (build, has_ports) in kinds(family).items():
                for fate in FATES:
                    name = f"v{family} {kind} {fate}"
                    if (has_ports or fate not in BY_PORT) and not name.startswith(tuple(without)):
                        self.add(family, name, build, fate)
        self.filling = [self.fresh(4) for _ in range(FILLING_V4)] + [self.fresh(6) for _ in range(FILLING_V6)]
        self.hits = [flow for flow in self.flows if flow.fate in HITS]
        self.misses = [flow for flow in self.flows if flow.fate not in HITS]

    def fresh(self, family):
        """An address whose /24 or /64 holds no other one."""
        while True:
            network = self.random.randrange(1 << 16, 223 << 16) if family == 4 else 0x2a00 << 48 | self.random.getrandbits(48)
            if network not in self.used and network >> 16 not in (10, 127, 198):
                self.used.add(network)
                host = self.random.randrange(4, 250)
                return str(ipaddress.ip_address(network << 8 | host) if family == 4 else
                           ipaddress.IPv6Address(network << 64 | host))

    def add(self, family, name, build, fate):
        address, other = self.fresh(family), self.fresh(family)
        shown = address
        if fate == "neighbour":  # the listed one is next to it: whatever looks at leading bits takes it for listed
            self.lists["member"].append(address)
            shown = str(ipaddress.ip_address(address) + 1)
        elif fate in BY_PORT:
            self.lists["port"].append((address, other))
        elif fate in HITS:
            self.lists[fate].append(address)
        ends = (shown, other) if fate in BY_PORT or self.random.random() < 0.5 else (other, shown)
        template = frame_of(build, *ends, PORT if fate == "port" else OTHER_PORT)
        self.flows.append(Flow(len(self.flows), name, fate, template, FATES[fate]))

    def write(self, folder):
        """even.yaml and odd.yaml: their paths."""
        write_lines(os.path.join(folder, "filling.txt"), (address + "\n" for address in self.filling))
        paths = []
        for name in ("even", "odd"):
            members = ", ".join(f'"{address}"' for address in self.lists["member"] + self.lists["friend"])
            ports = ", ".join(f'{{src: "{source}", dst: "{destination}", proto: udp, dport: {PORT}}}'
                              for source, destination in self.lists["port"])
            quoted = {fate: ", ".join(f'"{address}"' for address in self.lists[fate]) for fate in ("friend", "watched", name)}
            paths.append(write_lines(os.path.join(folder, name + ".yaml"), [
                f"version: 1\npolicy: {{tunnels: [{', '.join(TUNNELS)}]}}\nlists:\n",
                f"  - {{name: friends, action: pass, match: either, entries: [{quoted['friend']}]}}\n",
                f"  - {{name: watched, action: drop, mode: monitor, match: either, entries: [{quoted['watched']}]}}\n",
                f"  - {{name: members, action: drop, match: either, entries: [{members}]}}\n",
                f"  - {{name: ports, action: drop, entries: [{ports}]}}\n",
                "  - {name: filling, action: drop, match: either, file: filling.txt}\n",
                f"  - {{name: changing, action: drop, match: either, entries: [{quoted[name]}]}}\n"]))
        return paths


def mixture(world, count, seed):
    """Flows in the order in which frames of them are sent: stretches of no, few, many and only hits."""
    rng, order = random.Random(seed), []
    while len(order) < count:
        share = rng.choice((0, 0.01, 0.1, 0.5, 0.9, 1))
        for _ in range(rng.choice((16, 64, 200, 1000))):
            # A run of one flow makes neighbours in a burst of the same flow.
            flow = rng.choice(world.hits if rng.random() < share else world.misses)
            order += [flow] * rng.choice((1, 1, 1, 2, 5))
    return order[:count]


class Book:
    """What came back. Faults are counted by kind, the first of them told."""

    TOLD = 5

    def __init__(self, world):
        self.world = world
        self.sent = [0] * len(world.flows)
        self.came = [0] * len(world.flows)
        # By output: the number that a flow's next frame there has at least; and exactly, if all of it comes out there.
        self.next = [[0] * len(world.flows) for _ in (PASSED, DROPPED)]
        self.only = [flow.out[0] if flow.out[0] == flow.out[1] else None for flow in world.flows]
        self.faults, self.told = {}, []

    def fault(self, kind, flow, text):
        self.faults[kind] = self.faults.get(kind, 0) + 1
        if len(self.told) < self.TOLD:
            self.told.append(f"{kind}: {self.world.flows[flow].name}: {text}")

    def frames(self, output, tails):
        """tails: (flow, number) of frames in the order in which they came out."""
        due, only, came = self.next[output], self.only, self.came
        for flow, number in tails:
            came[flow] += 1
            if number != due[flow] or only[flow] != output:
                self.unusual(output, flow, number)
            due[flow] = number + 1

    def unusual(self, output, flow, number):
        due, only = self.next[output][flow], self.only[flow]
        if only is not None and only != output:
            self.fault("wrong verdict", flow, f"frame {number} was {('passed', 'dropped')[output]}")
        elif number < due:
            self.fault("out of order", flow, f"frame {number} after {due - 1}")
        elif only is not None and number > due:
            self.fault("gap", flow, f"frame {number} after {due - 1}")

    def close(self):
        """When no more can come."""
        for flow, (sent, came) in enumerate(zip(self.sent, self.came)):
            if sent != came:
                self.fault("lost" if came < sent else "surplus", flow, f"{sent} were sent, {came} came back")

    def violations(self):
        return sum(self.faults.values())
