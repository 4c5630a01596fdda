"""Policies and traffic for the rates of ports: lists as large as is asked for, frames with a known share of hits.

The same seed gives the same bytes. Sources are random and frames in random order, so that neither a cache nor a branch
predictor learns them. Standard library only.
"""

import os
import random

import port_draws
import port_frames
import port_ipv6
import port_lists
from port_draws import PORTS, SEED, write_lines
from port_frames import KINDS, udp_frame, write_frames
from port_lists import Hosts, NoEntries, NumberedHosts, SidesAndFlows, distinct, dotted, unicast

# What is made is made anew when one of these is newer.
MADE_BY = [module.__file__ for module in (port_draws, port_frames, port_ipv6, port_lists)] + [__file__]
# Frames of a capture. A filter of 1M keys has 24,576 lines, of which 65,536 random sources ask for all but 7 %; the
# frames themselves (two lines of mbuf and one of bytes each, 12 MiB) stay in L3, as where a card writes into it.
FRAMES = 65536


def lists(fields, entries):
    """fields: "src", "src+dst", "src+dst+flow" or "v6"; of each kind so many. To hosts by source belong networks, up to
    50,000 of them; past 1M there are hosts alone, one shape."""
    if entries == 0:
        return NoEntries()
    if fields == "v6":
        return port_ipv6.NetworksAndHosts6(entries)
    if fields != "src":
        return SidesAndFlows(entries, fields == "src+dst+flow")
    if entries > 1_000_000:
        return NumberedHosts(entries)
    return Hosts(entries, entries // 20)


def write_traffic(path, judge, hit_share, kind, frames=FRAMES):
    """kind: of port_frames.KINDS."""
    rng = random.Random(SEED + 1)
    hits = round(frames * hit_share)
    chosen = (judge.hit(rng, hits) if hits else []) + [judge.miss(rng) for _ in range(frames - hits)]
    rng.shuffle(chosen)
    write_frames(path, [KINDS[kind](flow, rng) for flow in chosen])


SOAK_LISTS = ("partners", "watch", "blocked")  # pass, monitored, drop; an address is in one of them at most


def soak(folder, entries=10_000, frames=FRAMES):
    """Two policies with the same verdict for every frame of one capture: in "odd" each list also has entries that no
    frame meets. Returns, for each frame in order, the number of its list in SOAK_LISTS, or -1."""
    rng = random.Random(SEED)
    addresses = distinct(rng, 4 * entries * len(SOAK_LISTS) + frames)
    parts = [[addresses.pop() for _ in range(entries)] for _ in SOAK_LISTS]
    judged = [(address, number) for number, part in enumerate(parts) for address in rng.sample(part, frames // 50)]
    judged += [(addresses.pop(), -1) for _ in range(frames - len(judged))]
    rng.shuffle(judged)
    for variant, extra in (("even", 0), ("odd", entries)):
        for name, part in zip(SOAK_LISTS, parts):
            more = [addresses.pop() for _ in range(extra)]
            write_lines(os.path.join(folder, f"{name}-{variant}.txt"),
                        (dotted(address) + "\n" for address in part + more))
        write_lines(os.path.join(folder, variant + ".yaml"), [
            "version: 1\nlists:\n",
            f"  - {{name: partners, action: pass, file: partners-{variant}.txt}}\n",
            f"  - {{name: watch, action: drop, mode: monitor, file: watch-{variant}.txt}}\n",
            f"  - {{name: blocked, action: drop, file: blocked-{variant}.txt}}\n"])
    write_frames(os.path.join(folder, "soak.pcap"), [
        udp_frame(source, unicast(rng), rng.randrange(1024, 65536), rng.choice(PORTS)) for source, _ in judged])
    return [number for _, number in judged]
