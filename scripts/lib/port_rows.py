"""What is measured at a port: rows of policy, traffic and mode; made once and kept in the build.

A row is made again when a program or a script that makes it is newer. docs/develop/figures.md tells what each row is for.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass

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
    fields: str = "src"    # src, src+dst, src+dst+flow
    entries: int = 1_000_000  # of each kind
    hits: float = 0.01     # share of the frames; None with mix: whatever the mix hits
    traffic: str = "64"    # 64, imix, mix
    workers: int = 1
    sink: bool = False     # frames are not sent; testpmd: rxonly

    @property
    def policy(self):
        return f"{self.fields}-{self.entries}"

    @property
    def name(self):
        hits = "" if self.hits is None else f"-{self.hits * 100:g}%"
        return (f"{self.fields}-{SIZE_NAMES[self.entries]}-{self.traffic}{hits}" + ("-sink" if self.sink else "") +
                (f"-{self.workers}w" if self.workers > 1 else ""))


SIZE_NAMES = {0: "0", 1_000: "1k", 100_000: "100k", 1_000_000: "1M", 10_000_000: "10M", 100_000_000: "100M"}
MIX = "pcaps/mix_shared.pcap.xz"
# Those that figures are taken from.
ROWS = {"src_1m": Row(), "mix_src_1m": Row(traffic="mix", hits=None), "flow_1m": Row("src+dst+flow"),
        "allhit": Row(hits=1, sink=True)}


def matrix(quick):
    """From the middle (1M sources, 1 % hits, 64 B, one worker) along every axis, and across those that meet."""
    fields = ("src", "src+dst", "src+dst+flow")
    if quick:
        rows = [Row(field, entries) for field in fields for entries in (1_000, 1_000_000)]
        return list(dict.fromkeys([Row(entries=0, hits=0), *rows, *(Row(hits=hits) for hits in (0, 1))]))
    rows = [Row(entries=0, hits=0)]
    rows += [Row(field, entries) for field in fields for entries in (1_000, 100_000, 1_000_000)]
    rows += [Row(entries=entries, hits=hits) for entries in (10_000_000, 100_000_000) for hits in (0.01, 1)]
    rows += [Row(field, hits=hits) for field in fields for hits in (0, 0.01, 0.5, 1)]
    rows += [Row(field, traffic="imix") for field in fields]
    rows += [Row(field, traffic="mix", hits=None) for field in fields]
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


def make_row(build, row):
    """Whatever of the row is not there yet."""
    folder = folder_of(build)
    policy = os.path.join(folder, row.policy + ".yaml")
    pcap = os.path.join(folder, row.name.removesuffix(f"-{row.workers}w").removesuffix("-sink") + ".pcap")
    without = row.traffic == "mix" or not older(pcap, port_traffic.__file__)
    if older(policy, port_traffic.__file__) or not without:
        say(f"making the lists and frames of {row.name}")
        judge = port_traffic.lists(row.fields, row.entries)
        if older(policy, port_traffic.__file__):
            judge.write(folder, row.policy)
        if row.traffic != "mix":
            port_traffic.write_traffic(pcap, judge, row.hits, row.traffic)
    if row.traffic == "mix":
        pcap = test_data(MIX, folder)
    snapshot, contents = make_snapshot(build, folder, row)
    capture = read_capture(pcap)
    feeds = [path for path in (os.path.join(folder, f"{row.policy}-{kind}.txt") for kind in ("hosts", "networks"))
             if os.path.exists(path)]
    return Made(pcap, snapshot, len(capture.frames), capture.longest(), contents, feeds)


def give_snapshot(session, made):
    """A data plane of this session starts enforcing it."""
    state = session.path("dataplane-state")
    os.makedirs(state, 0o700, exist_ok=True)
    shutil.copyfile(made.snapshot, os.path.join(state, "snapshot.weir"))
