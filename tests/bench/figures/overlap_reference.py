"""What lists hold of each other, computed once more: by binary search in sorted intervals, pair by pair, from the texts of
entries. Shares nothing with controld. For lists that drop, are enforced and match the same side.

An entry is held by a list whose entries without a port together hold all its addresses; one with a port also by a list whose
entries with that port do."""

import ipaddress
from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import accumulate


def parsed(text):
    """(family, first, last, port) of an entry as `controlctl export` writes it."""
    port = 0
    if text.startswith("["):
        text, _, port = text[1:].rpartition("]:")
    elif text.count(":") == 1:
        text, port = text.split(":")
    if "-" in text:
        first, last = (ipaddress.ip_address(part) for part in text.split("-"))
        return first.version, int(first), int(last), int(port)
    address, _, bits = text.partition("/")
    if not bits and ":" not in address:
        a, b, c, d = address.split(".")
        number = int(a) << 24 | int(b) << 16 | int(c) << 8 | int(d)
        return 4, number, number, int(port)
    network = ipaddress.ip_network(text)
    return network.version, int(network[0]), int(network[-1]), int(port)


class Intervals:
    """Disjoint, ascending, with a gap between any two."""

    def __init__(self, entries):
        self.first, self.last = [], []
        for first, last in sorted(entries):
            if self.last and first <= self.last[-1] + 1:
                self.last[-1] = max(self.last[-1], last)
            else:
                self.first.append(first)
                self.last.append(last)
        self.below = [0, *accumulate(last - first + 1 for first, last in zip(self.first, self.last))]

    def holds(self, first, last):
        at = bisect_right(self.first, first) - 1
        return at >= 0 and last <= self.last[at]

    def addresses_below(self, address):
        at = bisect_left(self.first, address)
        if at == 0:
            return 0
        return self.below[at - 1] + min(address, self.last[at - 1] + 1) - self.first[at - 1]

    def common(self, other):
        """Addresses in both."""
        if len(self.first) > len(other.first):
            return other.common(self)
        return sum(other.addresses_below(last + 1) - other.addresses_below(first)
                   for first, last in zip(self.first, self.last))


class Entries:
    """Of one list and family."""

    def __init__(self, entries):
        self.hosts = sorted(first for first, last, port in entries if port == 0 and first == last)
        self.ranges = [(first, last) for first, last, port in entries if port == 0 and first != last]
        self.with_port = [entry for entry in entries if entry[2] != 0]
        self.any_port = Intervals([(first, last) for first, last, port in entries if port == 0])
        by_port = defaultdict(list)
        for first, last, port in self.with_port:
            by_port[port].append((first, last))
        self.of_port = {port: Intervals(those) for port, those in by_port.items()}

    def holds(self, first, last, port):
        return self.any_port.holds(first, last) or (port in self.of_port and self.of_port[port].holds(first, last))

    def entries_of(self, other):
        """How many entries of the other one it holds."""
        mine = self.any_port
        if len(other.hosts) < len(mine.first):
            held = sum(mine.holds(host, host) for host in other.hosts)
        else:
            held = sum(bisect_right(other.hosts, last) - bisect_left(other.hosts, first)
                       for first, last in zip(mine.first, mine.last))
        if mine.first:
            held += sum(mine.holds(first, last) for first, last in other.ranges)
        return held + sum(self.holds(*entry) for entry in other.with_port)


def alone(lists):
    """Of each list the stretches that no other one holds, as Intervals."""
    changes = []
    for number, entries in enumerate(lists):
        changes += ((first, number) for first in entries.any_port.first)
        changes += ((last + 1, number) for last in entries.any_port.last)
    changes.sort()
    stretches = [[] for _ in lists]
    holders, before = set(), 0
    for at, number in changes:
        if at != before and len(holders) == 1:
            stretches[next(iter(holders))].append((before, at - 1))
        before = at
        holders ^= {number}
    return [Intervals(of_list) for of_list in stretches]


def unique_entries(lists, number, only_here):
    """Entries of the list that the others do not hold."""
    def touches(first, last):  # some address is in no other list
        at = bisect_right(only_here.first, last) - 1
        return at >= 0 and only_here.last[at] >= first

    entries = lists[number]
    others = [other for other in lists if other is not entries]
    found = sum(touches(host, host) for host in entries.hosts) + sum(touches(*one) for one in entries.ranges)
    for first, last, port in entries.with_port:
        if first != last:
            raise ValueError("a range with a port: this reference knows hosts with a port alone")
        found += not any(other.holds(first, last, port) for other in others)
    return found


def overlap(texts):
    """texts: {list: [entry, ...]}. {list: {"entries", "addresses", "unique_entries", "unique_addresses",
    "held_by": {list: (entries, addresses)}}}, with the lists that hold something."""
    names = list(texts)
    by_family = {4: defaultdict(list), 6: defaultdict(list)}
    for name, entries in texts.items():
        for text in entries:
            family, first, last, port = parsed(text)
            by_family[family][name].append((first, last, port))
    found = {name: {"entries": len(texts[name]), "addresses": 0, "unique_entries": 0, "unique_addresses": 0, "held_by": {}}
             for name in names}
    for family in (4, 6):
        lists = [Entries(by_family[family][name]) for name in names]
        for number, only_here in enumerate(alone(lists)):
            of_list = found[names[number]]
            of_list["unique_entries"] += unique_entries(lists, number, only_here)
            if family == 4:
                of_list["addresses"] = lists[number].any_port.below[-1]
                of_list["unique_addresses"] = only_here.below[-1]
        for a, of_a in enumerate(lists):
            for b, of_b in enumerate(lists):
                if a == b:
                    continue
                entries = of_b.entries_of(of_a)
                addresses = of_a.any_port.common(of_b.any_port) if family == 4 else 0
                if entries or addresses:
                    known = found[names[a]]["held_by"].get(names[b], (0, 0))
                    found[names[a]]["held_by"][names[b]] = (known[0] + entries, known[1] + addresses)
    return found


def differences(answer, expected):
    """What `controlctl lists --json` says otherwise: texts."""
    wrong = []
    for of_list in answer["lists"]:
        name = of_list["name"]
        wanted = expected[name]
        for member in ("entries", "addresses", "unique_entries", "unique_addresses"):
            if of_list[member] != wanted[member]:
                wrong.append(f"{name}: {member} is {of_list[member]}, expected {wanted[member]}")
        held = {one["list"]: (one["entries"], one["addresses"]) for one in of_list["held_by"]}
        for other in sorted(held.keys() | wanted["held_by"].keys()):
            if held.get(other) != wanted["held_by"].get(other):
                wrong.append(f"{name} in {other}: {held.get(other)}, expected {wanted['held_by'].get(other)}")
    return wrong
