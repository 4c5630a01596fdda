"""What is measured at a port: rows of policy, traffic and mode; made once and kept in the build.

A row is made again when a program or a script that makes it is newer. docs/develop/figures.md tells what each row is for.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, replace

import port_lists
import port_traffic
from capture import read_capture
from figures_filter import available_mib
from rig import Skip, say, test_data
from session import SessionError, tail

MAKER = "tests/bench/make_snapshot"
# What compiling takes, MiB; more than the memory that is free: the row is left out.
NEEDS_MIB = {10_000_000: 3_000, 100_000_000: 16_000}


@dataclass(frozen=True)
class Row:
    fields: str = "src"    # src, src+dst, src+dst+flow, v6, combined (a real list of sources)
    entries: int = 1_000_000  # of each kind
    hits: float = 0.01     # share of the frames; None with mix: whatever the mix hits
    traffic: str = "64"    # 64, imix, vlan, qinq, v6 (port_frames.KINDS), mix
    workers: int = 1
    sink: bool = False     # frames are not sent; testpmd: rxonly
    idle_port: bool = False  # a pair of ports, of which one gives no frame; else one port that sends back
    port: str = "pcap"     # net_pcap, which copies each frame; "frames": frames_port.cpp, which copies none

    @property
    def policy(self):
        return f"{self.fields}-{self.entries}"

    @property
    def capture(self):
        hits = "" if self.hits is None else f"-{self.hits * 100:g}%"
        return f"{self.fields}-{SIZE_NAMES[self.entries]}-{self.traffic}{hits}"

    @property
    def name(self):
        return (self.capture + ("-sink" if self.sink else "") + ("-idle-port" if self.idle_port else "") +
                (f"-{self.workers}w" if self.workers > 1 else "") + ("-frames-port" if self.port == "frames" else ""))


COMBINED = 669_714  # entries of the real list
SIZE_NAMES = {0: "0", 1_000: "1k", 100_000: "100k", COMBINED: "670k", 1_000_000: "1M", 10_000_000: "10M",
              100_000_000: "100M"}
MIX = "pcaps/mix_shared.pcap.xz"
# By a name: those that figures are taken from, and others that are asked for often.
ROWS = {"empty": Row(entries=0, hits=0), "src_1m": Row(), "srcdst_1m": Row("src+dst"), "flow_1m": Row("src+dst+flow"),
        "vlan_1m": Row(traffic="vlan"), "qinq_1m": Row(traffic="qinq"), "v6_1m": Row("v6", traffic="v6"),
        "halfhit": Row(hits=0.5), "allhit": Row(hits=1, sink=True),
        "flow_halfhit": Row("src+dst+flow", hits=0.5), "flow_allhit": Row("src+dst+flow", hits=1, sink=True),
        "v6_halfhit": Row("v6", hits=0.5, traffic="v6"), "v6_allhit": Row("v6", hits=1, traffic="v6", sink=True),
        "mix_src_1m": Row(traffic="mix", hits=None), "mix_combined": Row("combined", COMBINED, None, "mix"),
        "mix_frames_port": Row("combined", COMBINED, None, "mix", port="frames"),
        "mix_frames_port_empty": Row(entries=0, hits=None, traffic="mix", port="frames"),
        "idle_port": Row(idle_port=True), "src_10m": Row(entries=10_000_000), "src_100m": Row(entries=100_000_000)}


def matrix(quick):
    """From the middle (1M sources, 1 % hits, 64 B, one worker) along every axis, and across those that meet."""
    fields = ("src", "src+dst", "src+dst+flow")
    v6 = Row("v6", traffic="v6")
    if quick:
        rows = [Row(field, entries) for field in fields for entries in (1_000, 1_000_000)]
        rows += [Row(hits=hits) for hits in (0, 1)] + [Row(traffic="vlan"), v6, Row(idle_port=True)]
        return list(dict.fromkeys([Row(entries=0, hits=0), *rows]))
    rows = [Row(entries=0, hits=0)]
    rows += [Row(field, entries) for field in fields for entries in (1_000, 100_000, 1_000_000)]
    rows += [Row(entries=entries, hits=hits) for entries in (10_000_000, 100_000_000) for hits in (0.01, 1)]
    rows += [Row(field, hits=hits) for field in fields for hits in (0, 0.01, 0.5, 1)]
    rows += [Row(traffic=traffic) for traffic in ("vlan", "qinq")]
    rows += [replace(v6, hits=hits) for hits in (0, 0.01, 0.5, 1)]
    rows += [Row(field, traffic="imix") for field in fields]
    rows += [Row(field, traffic="mix", hits=None) for field in fields] + [Row("combined", COMBINED, None, "mix")]
    rows += [Row(idle_port=True)]
    rows += [Row(field, workers=2) for field in fields]
    return list(dict.fromkeys(rows))


@dataclass
class Made:
    """The files of a row."""
    pcap: str
    snapshot: str
    frames: int
    longest: int
    contents: dict  # of the snapshot: entries, bytes, probes
    feeds: list     # of addresses and prefixes by source, for peers; empty: it has other entries, or too many


def older(path, *than):
    return not os.path.exists(path) or any(os.path.getmtime(path) < os.path.getmtime(other) for other in than)


def run_maker(build, folder, row, number, out):
    needs = NEEDS_MIB.get(row.entries, 0)
    if available_mib() < needs:
        raise Skip(f"memory: {row.name}: compiling {row.entries} entries needs {needs} MiB of memory, {available_mib()} are "
                   "available")
    say(f"compiling {row.policy}")
    command = [os.path.join(build, MAKER), "--policy", os.path.join(folder, row.policy + ".yaml"), "--out", out,
               "--number", str(number)]
    for option in ("flows", "numbered"):
        path = os.path.join(folder, f"{row.policy}-{option}.txt")
        if os.path.exists(path):
            command += ["--" + option, path]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SessionError(f"{MAKER} failed for {row.policy}:\n{tail(done.stderr)}")
    with open(out + ".json", "w", encoding="ascii") as file:
        file.write(done.stdout)


def make_snapshot(build, folder, row, number=1):
    """(path of the file a data plane starts from, what is in it)"""
    out = os.path.join(folder, f"{row.policy}-{number}.weir")
    if older(out, os.path.join(build, MAKER), os.path.join(folder, row.policy + ".yaml")):
        run_maker(build, folder, row, number, out)
    with open(out + ".json", encoding="ascii") as file:
        return out, json.load(file)


def folder_of(build):
    folder = os.path.join(build, "bench", "ports")
    os.makedirs(folder, exist_ok=True)
    return folder


def older_than_makers(path):
    return older(path, *port_traffic.MADE_BY)


def make_lists(folder, row, pcap):
    """Policy, feeds and frames, of which some are not there yet."""
    say(f"making the lists and frames of {row.name}")
    if row.fields == "combined":
        judge = port_lists.RealList(test_data("blocklists/combined-v4.txt.xz", folder))
    else:
        judge = port_traffic.lists(row.fields, row.entries)
    if older_than_makers(os.path.join(folder, row.policy + ".yaml")):
        judge.write(folder, row.policy)
    if row.traffic != "mix":
        port_traffic.write_traffic(pcap, judge, row.hits, row.traffic)


def make_row(build, row):
    """Whatever of the row is not there yet."""
    folder = folder_of(build)
    pcap = test_data(MIX, folder) if row.traffic == "mix" else os.path.join(folder, row.capture + ".pcap")
    if older_than_makers(os.path.join(folder, row.policy + ".yaml")) or row.traffic != "mix" and older_than_makers(pcap):
        make_lists(folder, row, pcap)
    snapshot, contents = make_snapshot(build, folder, row)
    capture = read_capture(pcap)
    feeds = [path for path in (os.path.join(folder, f"{row.policy}-{kind}.txt") for kind in ("hosts", "networks", "hosts6", "networks6"))
             if os.path.exists(path)]
    return Made(pcap, snapshot, len(capture.frames), capture.longest(), contents, feeds)


def give_snapshot(session, made):
    """A data plane of this session starts enforcing it."""
    state = session.path("dataplane-state")
    os.makedirs(state, 0o700, exist_ok=True)
    shutil.copyfile(made.snapshot, os.path.join(state, "snapshot.weir"))
