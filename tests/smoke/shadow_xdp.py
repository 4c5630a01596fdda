"""A shadow on XDP, on veth pairs: what it counts is what a replay of both policies on the same frames says; a promotion under traffic
loses no frame and publishes the bytes that judged; a controld that is killed leaves what is enforced as it was; who attaches
nothing judges by no candidate, and says so."""

import os
import subprocess
import threading

from weir_smoke import BUILD, Session, check, controlctl, equal, make_samples, read_capture, skip, temporary_folder, write
from wires import Wire, exchange, make_frames, make_veth, own_bpf_file_system, own_network, udp_frame, wait_until_joined

import namespaces
from rig import Skip
from shadows import ask, plain_capture, replayed_difference
from shadows_xdp import frames_that_fit, xdp_shadowed_difference

TARGET = "targets: [{xdp: {interfaces: [%s]}}]"
RUNNING = """\
version: 1
lists:
  - {name: partners, action: pass, match: either, entries: [%(first)s]}
  - {name: old, action: drop, match: either, entries: [%(second)s, %(third)s]}
"""
CANDIDATE = """\
version: 1
policy: {tunnels: [ipip, 6in4, gre, vxlan], unparsed: drop}
lists:
  - {name: fresh, action: drop, match: either, file: feeds/fresh.txt}
  - {name: late, action: drop, match: either, entries: [%(third)s]}
  - {name: trial, action: drop, mode: monitor, match: either, entries: [0.0.0.0/1], allow_any: true}
"""
COUNTS = ("newly_dropped", "newly_dropped_bytes", "newly_passed", "newly_passed_bytes")
BLOCKED = '{name: %s, action: drop, match: src, entries: ["192.0.2.0/25", "2001:db8:bad::/48"]}'  # of wires.make_frames
KEPT_MIB = 64  # for others, by kSpareMemory of bpf/enforce/publish.cpp
BANS = "{name: bans, action: drop, dynamic: true}"


def addresses_of(capture):
    """IPv4 addresses of its plain frames, the commonest first."""
    seen = {}
    for frame in capture.frames:
        if frame[12:14] == b"\x08\x00" and len(frame) >= 34:
            for at in (26, 30):
                text = ".".join(map(str, frame[at:at + 4]))
                seen[text] = seen.get(text, 0) + 1
    return sorted(seen, key=lambda text: (-seen[text], text))


def counts_are_those_of_a_replay(folder):
    make_samples(folder)
    pcap = frames_that_fit(folder, plain_capture(folder, os.path.join(folder, "capture.pcap")))
    capture = read_capture(pcap)
    common = addresses_of(capture)
    check(len(common) >= 6, f"the capture has {len(common)} addresses only")
    names = dict(first=common[0], second=", ".join(common[1:3]), third=common[3])
    running = write(folder, "running.yaml", RUNNING % names)
    candidate = write(folder, "new/candidate.yaml", CANDIDATE % names)
    write(folder, "new/feeds/fresh.txt", "\n".join([common[0], common[4], common[5]]) + "\n")
    expected = replayed_difference(BUILD, folder, running, candidate, pcap)
    check(expected["newly_dropped"] > 0 and expected["newly_passed"] > 0, f"both policies differ both ways: {expected}")
    try:
        told = xdp_shadowed_difference(BUILD, running, candidate, pcap)
    except Skip as reason:
        skip(str(reason))
    for key, value in expected.items():
        equal(told[key], value, f"the shadow's {key}, and that of a replay")
    equal(told["bytes"], sum(map(len, capture.frames)), "bytes that were judged")
    for key in COUNTS:
        equal(sum(row[key] for row in told["lists"]), told[key], f"sum of {key} over lists")
    equal({row["list"] for row in told["lists"] if row["newly_passed"]} - {"old"}, set(), "lists that drop now")
    equal({row["list"] for row in told["lists"] if row["newly_dropped"]} - {"fresh", "late", "(unparsed)"}, set(),
          "lists that would drop")
    check(told["flows"], "differing flows were sampled")
    for flow in told["flows"]:
        check(flow["running"].split()[0] != flow["candidate"].split()[0], f"verdicts differ: {flow}")
    target, = told["targets"]
    check(target["acknowledged"] and target["nanoseconds"] > 0 and target["cycles"] is None, f"its cost is told: {target}")
    seventh = xdp_shadowed_difference(BUILD, running, candidate, pcap, 7)
    check(abs(seventh["packets"] - len(capture.frames) / 7) < 2, f"one in 7 of {len(capture.frames)}: {seventh['packets']}")


def program_on(name):
    done = subprocess.run(["ip", "-d", "link", "show", "dev", name], capture_output=True, text=True)
    return done.stdout.partition("prog/xdp id ")[2].partition(" ")[0]


def start(session):
    session.start_controld(session.path("weir.yaml"), targets=False, extra=["--bpf-dir", session.path("bpf")])
    session.wait_enforced()


class Traffic:
    """Frames with known verdicts, as long as it lasts: each that passes has to arrive, and no other."""

    def __init__(self, near, far):
        self.near, self.far = near, far
        self.over, self.error, self.rounds = threading.Event(), None, 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        frames = make_frames(60)
        try:
            while not self.over.is_set():
                exchange(self.near, self.far, frames, "traffic")
                self.rounds += 1
        except (Exception, SystemExit) as error:  # pylint: disable=broad-exception-caught
            self.error = error

    def another_round(self, session):
        seen = self.rounds
        session.wait("a round of traffic", lambda: self.error or self.rounds > seen + 1)
        equal(self.error, None, "traffic")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        equal(self.error, None, "traffic")


def promotes_without_loss(session, near, far):
    running = f"version: 1\n{TARGET % 'in0'}\nlists:\n  - {BLOCKED % 'blocked'}\n  - {BANS}\n"
    write(session.folder, "weir.yaml", running)
    candidate = write(session.folder, "new.yaml", running.replace("name: blocked", "name: other").replace(
        '"192.0.2.0/25"', '"192.0.2.0/25", 203.0.113.0/24'))
    start(session)
    wait_until_joined(near, far)
    ordinary = program_on("in0")
    with Traffic(near, far) as traffic:
        begun = ask(session, candidate)
        equal((begun["ok"], begun["on"]), (True, True), f"begun: {begun}")
        check(program_on("in0") not in ("", ordinary), "another program is attached while the shadow judges")
        traffic.another_round(session)
        controlctl(session, "add", "203.0.113.77", "--list", "bans")
        told = ask(session)
        check(told["packets"] > 60, f"packets were judged: {told}")
        equal((told["newly_dropped"], told["newly_passed"]), (0, 0), "both say the same of this traffic")
        promoted = ask(session, "--promote")
        session.wait_enforced()
        traffic.another_round(session)
    equal(promoted["judged_digest"], told["digest"], "the digest that judged")
    equal(promoted["enforced_digest"], told["digest"], "the digest that is enforced")
    check(promoted.get("overlay_digest"), "what was added since stands on it")
    target, = controlctl(session, "status")["targets"]
    equal((target["acknowledged"], target["generation"]), (True, promoted["generation"]), "the target enforces it")
    last = ask(session)
    equal(last["on"], False, "the shadow has ended")
    equal(program_on("in0"), ordinary, "the ordinary program is attached again")
    frame = bytearray(udp_frame(0, False, 20))
    frame[26:30] = bytes([203, 0, 113, 5])
    near.send(bytes(frame))
    check(far.receive(0.5) is None, "what the promoted policy drops")


def survives_a_crash(session, near, far):
    with open(session.path("weir.yaml"), encoding="ascii") as file:
        text = file.read()
    candidate = write(session.folder, "new.yaml", text.replace("drop, match", "drop, mode: monitor, match"))
    controlctl(session, "reload")
    ordinary = program_on("in0")
    with Traffic(near, far) as traffic:
        ask(session, candidate)
        traffic.another_round(session)
        told = ask(session)
        check(told["newly_passed"] > 0 and told["newly_dropped"] == 0, f"a list that would only watch: {told}")
        equal({row["list"] for row in told["lists"]}, {"blocked"}, "what drops now")
        session.kill("controld")
        traffic.another_round(session)
        check(program_on("in0") != ordinary, "nobody has attached anything since")
        start(session)
        session.wait("the ordinary program", lambda: program_on("in0") == ordinary)
        traffic.another_round(session)
        equal(ask(session)["on"], False, "no shadow after a crash of controld")
        begun = ask(session, candidate)
        equal(begun["on"], True, f"another one: {begun}")
        traffic.another_round(session)
        equal(ask(session, "--discard")["on"], False, "discarded")
        equal(program_on("in0"), ordinary, "the ordinary program is attached again")
        traffic.another_round(session)
        ask(session, candidate)
        equal(session.stop("controld"), 0, "controld's exit code")
        equal(program_on("in0"), ordinary, "who stops takes its shadow along")
        traffic.another_round(session)


def hosts(n):
    return "".join(f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}\n" for i in range(n))


def gives_way(session):
    """Where the kernel has little left: /proc/meminfo says so, as this test sees it."""
    def leave(mib):
        write(session.folder, "meminfo", f"MemTotal: 1048576 kB\nMemAvailable: {(KEPT_MIB + mib) << 10} kB\n")

    leave(64)
    namespaces.bind(session.path("meminfo"), "/proc/meminfo")
    try:
        text = f"version: 1\n{TARGET % 'in0'}\nlists:\n  - {BLOCKED % 'blocked'}\n"
        more = "  - {name: more, action: drop, file: more.txt}\n"
        write(session.folder, "weir.yaml", text)
        write(session.folder, "more.txt", hosts(100_000))
        large = write(session.folder, "large.yaml", text + more)
        small = write(session.folder, "small.yaml", text)
        start(session)
        leave(1)
        answer = ask(session, large, codes=(3,))
        target, = answer["targets"]
        check(not target["acknowledged"] and "the kernel has room for 1 MiB" in target["error"], f"refused, with numbers: {target}")
        begun = ask(session, small)
        equal(begun["ok"], True, f"a small candidate has room: {begun}")
        controlctl(session, "reload")
        equal(ask(session)["on"], True, "the shadow is not in the way")
        write(session.folder, "weir.yaml", text + more)
        controlctl(session, "reload")
        session.wait_enforced()
        target, = ask(session, codes=(0, 3))["targets"]
        # It has ended, or was tried once more since, and refused.
        check(not target["acknowledged"] and ("has no room for it" in target["error"] or "has room for 0 MiB" in target["error"]),
              f"what is enforced comes first: {target}")
        equal(session.call("explain", key="10.0.0.7")["as_source"]["reason"], "more", "what was published in its place")
        equal(session.stop("controld"), 0, "controld's exit code")
    finally:
        subprocess.run(["umount", "/proc/meminfo"], check=False)


def needs_an_interface(session):
    """`interfaces: []`: somebody else attaches the program."""
    with open(session.path("weir.yaml"), encoding="ascii") as file:
        text = file.read()
    write(session.folder, "weir.yaml", text.replace(TARGET % "in0", TARGET % ""))
    session.start_controld(session.path("weir.yaml"), targets=False, extra=["--bpf-dir", session.path("bpf")])
    session.wait_enforced()
    answer = ask(session, session.path("new.yaml"), codes=(3,))
    target, = answer["targets"]
    check(not target["acknowledged"] and "attaches to no interface" in target["error"], f"no shadow there: {target}")


with temporary_folder() as work:
    counts_are_those_of_a_replay(work)
own_network()
with Session(BUILD) as one, own_bpf_file_system(one.path("bpf")):
    make_veth("out0", "in0")
    subprocess.run(["ethtool", "-K", "out0", "txvlan", "off"], capture_output=True, check=False)
    ends = Wire("out0"), Wire("in0")
    promotes_without_loss(one, *ends)
    survives_a_crash(one, *ends)
    gives_way(one)
    needs_an_interface(one)
