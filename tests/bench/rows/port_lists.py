"""Lists of IPv4 for the rates of ports, as large as is asked for, and 5-tuples that they hold, or do not.

Each kind has write(folder, name): policy and feeds; hit(rng, count): so many 5-tuples that are listed; miss(rng): one that is
not. Addresses are random, so that neither a cache nor a branch predictor learns them. Standard library only.
"""

import bisect
import os
import random

from port_draws import POLICY, SEED, ports, sample, stranger_to, write_lines
from port_frames import UDP

# Hosts on either side of listed flows, at most, and flows of each: more than the 64 residuals of a key, so that no
# address alone stands for a flow.
FLOW_ENDS, FLOWS_PER_END = 8192, 120

# Prefix lengths of real network lists (data centres, countries, level-1 lists), in per mille.
PREFIX_LENGTHS = {8: 0.05, 9: 0.05, 10: 0.1, 11: 0.2, 12: 0.6, 13: 1, 14: 2, 15: 3, 16: 20, 17: 8, 18: 15, 19: 25,
                  20: 50, 21: 75, 22: 180, 23: 160, 24: 400, 25: 10, 26: 12, 27: 16, 28: 22}


def dotted(address):
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


def unicast(rng):
    return rng.randrange(1 << 24, 224 << 24)


def distinct(rng, count, known=()):
    """Addresses, none of them in `known`, in random order."""
    found = dict.fromkeys(unicast(rng) for _ in range(count))
    while len(found) < count or any(address in known for address in found):
        found = dict.fromkeys(address for address in found if address not in known)
        while len(found) < count:
            found[unicast(rng)] = None
    return list(found)


def stranger(rng, *known):
    return stranger_to(rng, unicast, *known)


class Networks:
    """Disjoint or nested prefixes, as (first, last)."""

    def __init__(self, rng, count):
        lengths = rng.choices(list(PREFIX_LENGTHS), list(PREFIX_LENGTHS.values()), k=count)
        self.prefixes = set()
        for length in lengths:
            address = unicast(rng)
            while (address >> 32 - length, length) in self.prefixes:
                address = unicast(rng)
            self.prefixes.add((address >> 32 - length, length))
        ranges = sorted((network << 32 - length, ((network + 1) << 32 - length) - 1)
                        for network, length in self.prefixes)
        self.firsts, self.lasts, furthest = [], [], -1
        for first, last in ranges:  # lasts: the furthest end of all that begin no later
            furthest = max(furthest, last)
            self.firsts.append(first)
            self.lasts.append(furthest)

    def __contains__(self, address):
        at = bisect.bisect_right(self.firsts, address) - 1
        return at >= 0 and address <= self.lasts[at]

    def one(self, rng):
        at = rng.randrange(len(self.firsts))
        return self.firsts[at]

    def lines(self):
        return (f"{dotted(network << 32 - length)}/{length}\n" for network, length in sorted(self.prefixes))


class Hosts:
    """Hosts and networks, matched by source. Only sources of frames that hit are listed."""

    def __init__(self, entries, networks):
        rng = random.Random(SEED)
        self.networks = Networks(rng, networks)
        self.hosts = distinct(rng, entries)
        self.known = set(self.hosts)

    def write(self, folder, name):
        write_lines(os.path.join(folder, name + "-hosts.txt"), (dotted(address) + "\n" for address in self.hosts))
        write_lines(os.path.join(folder, name + "-networks.txt"), self.networks.lines())
        write_lines(os.path.join(folder, name + ".yaml"), [
            POLICY, f"  - {{name: hosts, action: drop, match: src, file: {name}-hosts.txt}}\n",
            f"  - {{name: networks, action: drop, match: src, file: {name}-networks.txt}}\n"])

    def hit(self, rng, count):
        """`count` 5-tuples that are listed: of hosts and networks as there are entries."""
        from_networks = count * len(self.networks.prefixes) // (len(self.hosts) + len(self.networks.prefixes))
        sources = sample(rng, self.hosts, count - from_networks)
        sources += [self.networks.one(rng) for _ in range(from_networks)]
        return [(source, unicast(rng), *ports(rng)) for source in sources]

    def miss(self, rng):
        return stranger(rng, self.known, self.networks), unicast(rng), *ports(rng)


class NoEntries:
    def write(self, folder, name):
        write_lines(os.path.join(folder, name + ".yaml"), ["version: 1\nlists: []\n"])

    def miss(self, rng):
        return unicast(rng), unicast(rng), *ports(rng)


class RealList:
    """A feed of real addresses and networks, as sources; its frames are real ones, too."""

    def __init__(self, path):
        self.path = path

    def write(self, folder, name):
        write_lines(os.path.join(folder, name + ".yaml"), [
            POLICY, f"  - {{name: real, action: drop, match: src, file: {self.path}}}\n"])


class NumberedHosts:
    """So many hosts that nobody writes them down: host i is i times an odd number, which make_snapshot repeats."""

    STEP = 0x9E3779B1
    INVERSE = pow(STEP, -1, 1 << 32)

    def __init__(self, entries):
        self.entries = entries

    def write(self, folder, name):
        write_lines(os.path.join(folder, name + "-numbered.txt"), [f"{self.entries} {self.STEP}\n"])
        write_lines(os.path.join(folder, name + ".yaml"), [
            "version: 1\nfilter: {memory: 16GiB}\nlists:\n  - {name: hosts, action: drop, match: src, entries: []}\n"])

    def __contains__(self, address):
        return address * self.INVERSE % (1 << 32) < self.entries

    def hit(self, rng, count):
        return [(number * self.STEP % (1 << 32), unicast(rng), *ports(rng))
                for number in rng.sample(range(1, self.entries), count)]

    def miss(self, rng):
        return stranger(rng, self), unicast(rng), *ports(rng)


class SidesAndFlows:
    """As many sources as destinations and, with `flows`, as many 5-tuples. Hosts of listed flows are in no other list,
    and in no frame that is not meant to hit."""

    def __init__(self, entries, flows):
        rng = random.Random(SEED)
        self.sources, self.destinations = distinct(rng, entries), distinct(rng, entries)
        self.bad_sources, self.bad_destinations = set(self.sources), set(self.destinations)
        ends = min(FLOW_ENDS, max(1, entries // FLOWS_PER_END))
        clients, servers = ([stranger(rng, known) for _ in range(ends)]
                            for known in (self.bad_sources, self.bad_destinations))
        self.flows = list(dict.fromkeys((rng.choice(clients), rng.choice(servers), *ports(rng))
                                        for _ in range(entries))) if flows else []
        self.bad_sources.update(clients)
        self.bad_destinations.update(servers)

    def write(self, folder, name):
        write_lines(os.path.join(folder, name + "-sources.txt"), (dotted(address) + "\n" for address in self.sources))
        write_lines(os.path.join(folder, name + "-destinations.txt"),
                    (dotted(address) + "\n" for address in self.destinations))
        policy = [POLICY, f"  - {{name: sources, action: drop, match: src, file: {name}-sources.txt}}\n",
                  f"  - {{name: destinations, action: drop, match: dst, file: {name}-destinations.txt}}\n"]
        if self.flows:
            write_lines(os.path.join(folder, name + "-flows.txt"),
                        (f"{dotted(source)} {dotted(destination)} {UDP} {sport} {dport}\n"
                         for source, destination, sport, dport in self.flows))
            policy.append("  - {name: flows, action: drop, entries: []}\n")
        write_lines(os.path.join(folder, name + ".yaml"), policy)

    def hit(self, rng, count):
        """Of each kind the same."""
        kinds = 3 if self.flows else 2
        shares = [count // kinds + (kind < count % kinds) for kind in range(kinds)]
        found = [(source, *self.miss(rng)[1:]) for source in sample(rng, self.sources, shares[0])]
        for destination in sample(rng, self.destinations, shares[1]):
            source, _, *rest = self.miss(rng)
            found.append((source, destination, *rest))
        return found + (sample(rng, self.flows, shares[2]) if self.flows else [])

    def miss(self, rng):
        return stranger(rng, self.bad_sources), stranger(rng, self.bad_destinations), *ports(rng)
