"""Figures of `controlctl plan`: whether its intervals hold the truth, and what the samples cost a worker.

The truth is the reference classifier's, frame by frame, of the same capture under both policies.
"""

import ipaddress
import json
import os
import random
import socket
import statistics
import struct
import subprocess
import time

from added_cycles import ask_client, devices, memory_for, weir_config
from capture import read_capture
from figure import at_least, at_most
from port_rows import ROWS, give_snapshot, make_row
from rig import PlacedSession, Skip, core_clock, say, spread, test_data
from session import Memory, SessionError
from wire import WIRE_HEADER, WIRE_MAGIC, WIRE_VERSION

LISTS = {"ipsum": "ipsum.txt.xz", "datacenter": "x4b_datacenter_ipv4.txt.xz", "vpn": "x4b_vpn_ipv4.txt",
         "spamhaus": "spamhaus_drop.txt", "scanner": "maltrail_mass_scanner.txt.xz", "doh": "doh-ipv4.txt",
         "probes": "shadowwhisperer_Probes", "tunnels": "shadowwhisperer_Tunnels"}
MIX = "pcaps/mix_shared.pcap.xz"
CHANGES, BATCH = 100, 10
RECENT_S = 15           # how long a frame is recent: so long until the next changes meet other samples
WANTED_SHARE = 90       # of 100
SEED = 18
ROW = ROWS["src_1m"]
PAIRS, WINDOW_S, ASK_S = 120, 0.5, 0.25
CLOCK_PAIRS = 20  # of which one core clock is measured
PER_SECOND = 500        # samples, as controld asks for
WIRE_TRAFFIC = 21
RESERVOIR_CYCLES = 2


class Policies:
    """A policy of real lists, and random changes of it."""

    def __init__(self, folder, capture):
        self.folder, self.random, self.written = folder, random.Random(SEED), 0
        self.entries = {}
        for name, file in LISTS.items():
            with open(test_data("blocklists/" + file, folder), encoding="utf-8", errors="replace") as lines:
                words = (line.split("#")[0].split(";")[0].split() for line in lines)
                self.entries[name] = [word[0] for word in words if word]
        self.seen = sorted({str(ipaddress.ip_address(frame[26:30])) for frame in capture.frames
                            if frame[12:14] == b"\x08\0" and len(frame) >= 34})
        self.lists = {name: {"action": "drop", "mode": "enforce", "match": "either", "entries": entries}
                      for name, entries in list(self.entries.items())[:5]}
        self.lists["watch"] = {"action": "drop", "mode": "monitor", "match": "src",
                               "entries": self.random.sample(self.seen, len(self.seen) // 50)}

    def write(self, lists):
        """The path of a policy file."""
        self.written += 1
        text = (f"version: 1\nplan: {{recent: {RECENT_S}s}}\nfilter: {{memory: 1GiB}}\nlists:\n")
        for name, of in lists.items():
            feed = os.path.join(self.folder, f"{self.written}-{name}.txt")
            with open(feed, "w", encoding="utf-8") as file:
                file.write("\n".join(of["entries"]) + "\n")
            mode = "" if of["action"] == "pass" else f"mode: {of['mode']}, "
            text += (f"  - {{name: {name}, action: {of['action']}, {mode}match: {of['match']}, file: {feed}, "
                     f"guard: {{max_shrink: 100%, max_growth: 10000x, reserved: keep, min_entries: 0}}}}\n")
        path = os.path.join(self.folder, f"policy-{self.written}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def changed(self):
        """One to three changes, of kinds that operators make."""
        lists = {name: dict(of) for name, of in self.lists.items()}
        for _ in range(self.random.randint(1, 3)):
            name = self.random.choice(list(lists))
            of = lists[name]
            kind = self.random.choice(("fewer", "networks", "mode", "action", "match", "new", "exempt"))
            if kind == "fewer":
                of["entries"] = self.random.sample(of["entries"], max(1, int(len(of["entries"]) * self.random.random())))
            elif kind == "networks":  # around addresses that are seen
                length = self.random.choice((16, 20, 24, 28, 32))
                around = self.random.sample(self.seen, self.random.randint(1, 30))
                of["entries"] = of["entries"] + [str(ipaddress.ip_network(f"{address}/{length}", strict=False))
                                                 for address in around]
            elif kind == "mode":
                of["mode"] = "monitor" if of["mode"] == "enforce" else "enforce"
            elif kind == "action":
                of["action"] = "pass" if of["action"] == "drop" else "drop"
            elif kind == "match":
                of["match"] = self.random.choice(("src", "dst", "either"))
            elif kind == "new":
                other = self.random.choice(list(self.entries))
                lists[f"new-{other}"] = {"action": "drop", "mode": "enforce",
                                         "match": self.random.choice(("src", "dst", "either")), "entries": self.entries[other]}
            else:
                lists["exempt"] = {"action": "pass", "mode": "enforce", "match": "either",
                                   "entries": self.random.sample(self.seen, self.random.randint(1, 40))}
        return lists


def numbered(capture, path):
    """The capture with the number of each frame as its time: what is written of it says which frames it holds."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for number, frame in enumerate(capture.frames):
            file.write(struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame)


def dropped_by(build, policy, pcap, out):
    """The numbers of the frames that the policy drops."""
    done = subprocess.run([os.path.join(build, "tests/reference/reference-capture"), "--config", policy, "--pcap", pcap,
                           "--dropped", out], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SessionError(f"reference-capture: {done.stderr}")
    return {header[0] for header in read_capture(out).headers}


def radius_covered(build, folder):
    pcap = test_data(MIX, folder)
    capture = read_capture(pcap)
    numbers = os.path.join(folder, "numbered.pcap")
    numbered(capture, numbers)
    policies = Policies(folder, capture)
    base = policies.write(policies.lists)
    before = dropped_by(build, base, numbers, os.path.join(folder, "before.pcap"))
    say(f"answers: {len(capture.frames)} frames, of which {len(before)} drop; {CHANGES} changes")
    runs = []
    with PlacedSession(build) as session:
        session.start_dataplane("forward: hairpin\nports: [{port: 0, queues: 1}]", [f"net_pcap0,rx_pcap={pcap},infinite_rx=1"], 1,
                                Memory(len(capture.frames) + 2048, capture.longest()))
        session.start_controld(base)
        session.wait_enforced()
        while len(runs) < CHANGES:
            if len(runs) % BATCH == 0:
                time.sleep(RECENT_S + 1)
            candidate = policies.write(policies.changed())
            after = dropped_by(build, candidate, numbers, os.path.join(folder, "after.pcap"))
            truth = {"newly_dropped": len(after - before) / len(capture.frames),
                     "newly_passed": len(before - after) / len(capture.frames)}
            if not any(truth.values()):
                continue  # a change that changes nothing is told rightly by whoever says 0
            code, out, err = session.controlctl("plan", "--json", candidate)
            if code != 0:
                raise SessionError(f"controlctl plan ended with {code}: {err}{out[:500]}")
            radius = json.loads(out)["radius"]
            run = {"samples": radius["samples"]}
            for what, share in truth.items():
                run[what] = {"truth": share, **radius[what],
                             "holds": radius[what]["low"] <= share <= radius[what]["high"]}
            runs.append(run)
            if len(runs) % BATCH == 0:
                say(f"answers: {len(runs)} changes, in {sum(holds(run) for run in runs)} of them the interval holds")
    changed = [run[what] for run in runs for what in ("newly_dropped", "newly_passed") if run[what]["truth"]]
    held = sum(one["holds"] for one in changed)
    covered = sum(holds(run) for run in runs)
    note = (f"changes whose interval of the larger share holds; of all {len(changed)} shares that are not 0, {held} are held; "
            f"shares up to {max(one['truth'] for one in changed):.3f}, {statistics.median(run['samples'] for run in runs):.0f} samples")
    return [at_least("answers.radius_covered", covered, WANTED_SHARE, "changes", note)], {"runs": runs}


def holds(run):
    """Of the larger of both shares: one interval a change."""
    return max((run["newly_dropped"], run["newly_passed"]), key=lambda one: one["truth"])["holds"]


def ask_for_traffic(connection, per_second):
    """As controld does: until nothing waits. Returns how many samples came."""
    samples, waiting = 0, 1
    while waiting:
        connection.send(WIRE_HEADER.pack(WIRE_MAGIC, WIRE_VERSION, WIRE_TRAFFIC, 8, 1) + struct.pack("<II", per_second, 0))
        answer = connection.recv(1 << 20)
        waiting, n = struct.unpack_from("<II", answer, WIRE_HEADER.size + 32)
        samples += n
    return samples


def worker_ns(session):
    """What the data plane's main thread, which is its worker, has had of a processor: what others run there does not count."""
    with open(f"/proc/{session.dataplane.pid}/task/{session.dataplane.pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0])


def window(build, session, connection, per_second):
    """Nanoseconds of the worker a packet, and samples, while so many are asked for."""
    ask_for_traffic(connection, per_second)  # what waits is of before
    begin, begin_ns, samples = ask_client(build, session, "telemetry"), worker_ns(session), 0
    deadline = time.monotonic() + WINDOW_S
    while time.monotonic() < deadline:
        time.sleep(ASK_S)
        if per_second:
            samples += ask_for_traffic(connection, per_second)
    end, end_ns = ask_client(build, session, "telemetry"), worker_ns(session)
    return (end_ns - begin_ns) / (end["packets"] - begin["packets"]), samples


def reservoir_cycles(build, _folder):
    """The same process, with samples and without, in turns."""
    made = make_row(build, ROW)
    added, plain = [], []
    with PlacedSession(build) as session:
        give_snapshot(session, made)
        session.start_dataplane(weir_config(ROW), devices(ROW, made), 1, memory_for(made))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(session.path("dataplane.sock"))
            window(build, session, connection, PER_SECOND)
            samples = 0
            for pair in range(PAIRS):
                order = (0, PER_SECOND) if pair % 2 else (PER_SECOND, 0)
                measured = {per_second: window(build, session, connection, per_second) for per_second in order}
                if pair % CLOCK_PAIRS == 0:
                    ghz = core_clock(build)["ghz"]
                samples += measured[PER_SECOND][1]
                plain.append(measured[0][0] * ghz)
                added.append((measured[PER_SECOND][0] - measured[0][0]) * ghz)
                if pair % CLOCK_PAIRS == CLOCK_PAIRS - 1:
                    say(f"answers: {pair + 1} pairs: {statistics.median(plain):.1f} cycles a packet, samples add {statistics.median(added):+.2f}")
    note = (f"{spread(added, 2)} beside {statistics.median(plain):.1f} cycles a packet, {PAIRS} pairs of {WINDOW_S} s on one process; "
            f"{samples / (PAIRS * WINDOW_S):.0f} samples a second")
    return [at_most("answers.reservoir_cycles", statistics.median(added), RESERVOIR_CYCLES, "cycles", note)], {
        "added": added, "plain": plain, "samples": samples}


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("answers.radius_covered",), radius_covered),
    (("answers.reservoir_cycles",), reservoir_cycles),
)
