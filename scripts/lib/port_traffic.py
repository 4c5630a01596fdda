"""Policies and traffic for the rates of ports: lists as large as is asked for, frames of which a known share is in them.

The same seed gives the same bytes. Frames come in random order and no two have the same source, so that neither a cache
nor a branch predictor learns them. Standard library only.
"""

import bisect
import os
import random
import struct

from capture import Capture, write_capture

SEED = 20260801
# Frames of a capture. A filter of 1M keys has 24,576 lines, of which 65,536 random sources ask for all but 7 %; the frames
# themselves (two lines of mbuf and one of bytes each, 12 MiB) stay in L3, as they do where a card writes into it.
FRAMES = 65536
FRAME_BYTES = 60  # 64 with the FCS, which a capture has not
UDP = 17
FLOW_ENDS = 8192  # hosts on either side of listed flows: over a hundred flows each, so no address alone stands for a flow
PORTS = (53, 80, 123, 443, 8080)
POLICY = "version: 1\nlists:\n"

# Prefix lengths of real network lists (data centres, countries, level-1 lists), in per mille.
PREFIX_LENGTHS = {8: 0.05, 9: 0.05, 10: 0.1, 11: 0.2, 12: 0.6, 13: 1, 14: 2, 15: 3, 16: 20, 17: 8, 18: 15, 19: 25, 20: 50,
                  21: 75, 22: 180, 23: 160, 24: 400, 25: 10, 26: 12, 27: 16, 28: 22}


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


def udp_frame(source, destination, sport, dport, frame_bytes=FRAME_BYTES):
    """Ethernet, IPv4 with its checksum, UDP without one."""
    head = struct.pack(">BBHHHBBHII", 0x45, 0, frame_bytes - 14, 1, 0, 64, UDP, 0, source, destination)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xffff) + (total >> 16)
    total = (total & 0xffff) + (total >> 16)
    ip = head[:10] + struct.pack(">H", ~total & 0xffff) + head[12:]
    udp = struct.pack(">HHHH", sport, dport, frame_bytes - 34, 0)
    return b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0" + ip + udp + bytes(frame_bytes - 42)


def write_lines(path, lines):
    with open(path, "w", encoding="ascii") as file:
        file.writelines(lines)
    return path


def write_frames(path, frames):
    write_capture(path, Capture(frames=frames, headers=[(0, 0, len(frame)) for frame in frames]))
    return path


def hosts_and_networks(folder, name, hosts, networks, hit_share, frames=FRAMES):
    """Files of a policy that drops hosts and networks by source, and of a capture that hits it in proportion to both.
    Only hit sources are in the lists."""
    rng = random.Random(SEED)
    nets = Networks(rng, networks)
    blocked = distinct(rng, hosts)
    hits = round(frames * hit_share)
    from_networks = hits * networks // (hosts + networks)
    sources = rng.sample(blocked, hits - from_networks) + [nets.one(rng) for _ in range(from_networks)]
    known = set(blocked)
    while len(sources) < frames:
        address = unicast(rng)
        if address not in known and address not in nets:
            sources.append(address)
    rng.shuffle(sources)
    destinations = [unicast(rng) for _ in range(frames)]
    write_lines(os.path.join(folder, name + "-hosts.txt"), (dotted(address) + "\n" for address in blocked))
    write_lines(os.path.join(folder, name + "-networks.txt"), nets.lines())
    write_lines(os.path.join(folder, name + ".yaml"), [
        POLICY, f"  - {{name: hosts, action: drop, match: src, file: {name}-hosts.txt}}\n",
        f"  - {{name: networks, action: drop, match: src, file: {name}-networks.txt}}\n"])
    write_frames(os.path.join(folder, name + ".pcap"), [
        udp_frame(source, destination, rng.randrange(1024, 65536), rng.choice(PORTS))
        for source, destination in zip(sources, destinations)])


def all_kinds(folder, name, count, hit_share, frames=FRAMES):
    """The same with `count` sources, destinations and 5-tuples each: a third of the hits for each kind. Hosts of listed
    flows are in no other list; other frames are of none of these hosts."""
    rng = random.Random(SEED)
    sources, destinations = distinct(rng, count), distinct(rng, count)
    listed_sources, listed_destinations = set(sources), set(destinations)

    def stranger(known):
        address = unicast(rng)
        while address in known:
            address = unicast(rng)
        return address

    clients, servers = ([stranger(known) for _ in range(FLOW_ENDS)] for known in (listed_sources, listed_destinations))
    guilty_sources = listed_sources.union(clients)
    guilty_destinations = listed_destinations.union(servers)

    def ports():
        return rng.randrange(1024, 65536), rng.choice(PORTS)

    def innocent_source():
        return stranger(guilty_sources)

    def innocent_destination():
        return stranger(guilty_destinations)

    flows = list(dict.fromkeys((rng.choice(clients), rng.choice(servers), *ports()) for _ in range(count)))
    each = round(frames * hit_share / 3)
    chosen = rng.sample(flows, each)
    chosen += [(source, innocent_destination(), *ports()) for source in rng.sample(sources, each)]
    chosen += [(innocent_source(), destination, *ports()) for destination in rng.sample(destinations, each)]
    chosen += [(innocent_source(), innocent_destination(), *ports()) for _ in range(frames - len(chosen))]
    rng.shuffle(chosen)
    write_lines(os.path.join(folder, name + "-sources.txt"), (dotted(address) + "\n" for address in sources))
    write_lines(os.path.join(folder, name + "-destinations.txt"), (dotted(address) + "\n" for address in destinations))
    write_lines(os.path.join(folder, name + "-flows.txt"), (
        f"{dotted(source)} {dotted(destination)} {UDP} {sport} {dport}\n" for source, destination, sport, dport in flows))
    write_lines(os.path.join(folder, name + ".yaml"), [
        POLICY, f"  - {{name: sources, action: drop, match: src, file: {name}-sources.txt}}\n",
        f"  - {{name: destinations, action: drop, match: dst, file: {name}-destinations.txt}}\n",
        "  - {name: flows, action: drop, entries: []}\n"])
    write_frames(os.path.join(folder, name + ".pcap"), [udp_frame(*chosen_flow) for chosen_flow in chosen])


SOAK_LISTS = ("partners", "watch", "blocked")  # pass, monitored, drop; an address is in one of them at most


def soak(folder, entries=10_000, frames=FRAMES):
    """Two policies with the same verdict for every frame of one capture: in "odd" each list also has entries that no frame
    meets. Returns, for each frame in order, the number of its list in SOAK_LISTS, or -1."""
    rng = random.Random(SEED)
    addresses = distinct(rng, 4 * entries * len(SOAK_LISTS) + frames)
    parts = [[addresses.pop() for _ in range(entries)] for _ in SOAK_LISTS]
    judged = [(address, number) for number, part in enumerate(parts) for address in rng.sample(part, frames // 50)]
    judged += [(addresses.pop(), -1) for _ in range(frames - len(judged))]
    rng.shuffle(judged)
    for variant, extra in (("even", 0), ("odd", entries)):
        for name, part in zip(SOAK_LISTS, parts):
            more = [addresses.pop() for _ in range(extra)]
            write_lines(os.path.join(folder, f"{name}-{variant}.txt"), (dotted(address) + "\n" for address in part + more))
        write_lines(os.path.join(folder, variant + ".yaml"), [
            "version: 1\nlists:\n",
            f"  - {{name: partners, action: pass, file: partners-{variant}.txt}}\n",
            f"  - {{name: watch, action: drop, mode: monitor, file: watch-{variant}.txt}}\n",
            f"  - {{name: blocked, action: drop, file: blocked-{variant}.txt}}\n"])
    write_frames(os.path.join(folder, "soak.pcap"), [
        udp_frame(source, unicast(rng), rng.randrange(1024, 65536), rng.choice(PORTS)) for source, _ in judged])
    return [number for _, number in judged]
