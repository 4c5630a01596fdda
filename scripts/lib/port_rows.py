"""What is measured at a port: rows of policy, traffic and mode; made once and kept in the build.

A row is made again when a program or a script that makes it is newer. docs/figures.md tells what each row is for.
"""

import functools
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Callable

import port_traffic
from capture import read_capture
from rig import say, test_data
from session import SessionError, tail

MAKER = "tests/bench/make_snapshot"
HOSTS, NETWORKS = 1_000_000, 50_000


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    files: str             # the policy and the capture of this name
    make: Callable         # (folder) -> writes FILES.yaml, FILES.pcap and perhaps FILES-flows.txt
    sink: bool = False     # frames are not sent; testpmd: rxonly
    pcap: str = ""         # another capture, of the test data


ROWS = {row.name: row for row in (
    Row("src_1m", "1M hosts and 50k prefixes by source, 1 % hits, 64 B", "src1m",
        functools.partial(port_traffic.hosts_and_networks, name="src1m", hosts=HOSTS, networks=NETWORKS, hit_share=0.01)),
    Row("mix_src_1m", "the same lists, mix_shared", "src1m",
        functools.partial(port_traffic.hosts_and_networks, name="src1m", hosts=HOSTS, networks=NETWORKS, hit_share=0.01),
        pcap="pcaps/mix_shared.pcap.xz"),
    Row("flow_1m", "1M sources, 1M destinations and 1M 5-tuples, 1 % hits, 64 B", "flow1m",
        functools.partial(port_traffic.all_kinds, name="flow1m", count=1_000_000, hit_share=0.01)),
    Row("allhit", "1M hosts and 50k prefixes by source, every frame hits, 64 B, nothing is sent", "allhit",
        functools.partial(port_traffic.hosts_and_networks, name="allhit", hosts=HOSTS, networks=NETWORKS, hit_share=1),
        sink=True),
)}


@dataclass
class Made:
    """The files of a row."""
    pcap: str
    snapshot: str
    frames: int
    longest: int
    contents: dict  # of the snapshot: entries, bytes, probes


def older(path, *than):
    return not os.path.exists(path) or any(os.path.getmtime(path) < os.path.getmtime(other) for other in than)


def make_snapshot(build, folder, row, number=1):
    """(path of the file a data plane starts from, what is in it)"""
    program = os.path.join(build, MAKER)
    policy, flows, out = (os.path.join(folder, row.files + ending) for ending in
                          (".yaml", "-flows.txt", f"-{number}.weir"))
    if older(out, program, policy):
        say(f"compiling {row.files}")
        command = [program, "--policy", policy, "--out", out, "--number", str(number)]
        if os.path.exists(flows):
            command += ["--flows", flows]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SessionError(f"{MAKER} failed for {row.files}:\n{tail(done.stderr)}")
        with open(out + ".json", "w", encoding="ascii") as file:
            file.write(done.stdout)
    with open(out + ".json", encoding="ascii") as file:
        return out, json.load(file)


def make_row(build, row):
    """Whatever of the row is not there yet."""
    folder = os.path.join(build, "bench", "ports")
    os.makedirs(folder, exist_ok=True)
    pcap = os.path.join(folder, row.files + ".pcap")
    if older(pcap, port_traffic.__file__):
        say(f"making the lists and frames of {row.files}")
        row.make(folder)
    if row.pcap:
        pcap = test_data(row.pcap, folder)
    snapshot, contents = make_snapshot(build, folder, row)
    capture = read_capture(pcap)
    return Made(pcap, snapshot, len(capture.frames), capture.longest(), contents)


def give_snapshot(session, made):
    """A data plane of this session starts enforcing it."""
    state = session.path("dataplane-state")
    os.makedirs(state, 0o700, exist_ok=True)
    shutil.copyfile(made.snapshot, os.path.join(state, "snapshot.weir"))
