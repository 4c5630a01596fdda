"""What XDP drops is sampled as a data plane does it: on a veth pair every dropped frame stands in a pcapng file with the
comment that `controlctl explain` gives reason for, sums hold, and a flood that nobody reads loses some and counts them.
`plan` knows what it passes and drops. `controlctl drops` prints the same, and `--follow` has drops sampled without a section capture, as long as it runs."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from weir_smoke import BUILD, Session, check, controlctl, equal, pause, skip, write
from frames import Data, Ethernet, Frame, Icmp, ICMP, TCP, V4, V6, Vlan, WithPorts, number_of, udp
from sample_files import files, tshark
from wires import Wire, make_veth, own_bpf_file_system, own_network, wait_until_joined

POLICY = """\
version: 1
targets: [{{xdp: {{interfaces: [in0]}}}}]
policy: {{tunnels: [ipip], unparsed: drop}}
{capture}
lists:
  - {{name: allow, action: pass, entries: [203.0.113.200]}}
  - {{name: nets, action: drop, match: either, file: nets.txt}}
  - name: services
    action: drop
    match: dst
    entries:
      - 198.51.100.7:443
      - {{src: 192.0.2.0/24, dst: 198.51.100.8, proto: udp, dport: 50-60, comment: a flow}}
  - {{name: six, action: drop, entries: ["2001:db8:bad::/48"]}}
"""
CAPTURE = "capture: {{folder: {}, one_in: 1, per_list_per_second: {}, snap_bytes: {}}}"
COMMENT = re.compile(r"generation [0-9a-f]{16}/(\d+), (?:list ([\w-]+), entry (.+), (\S+):(\d+)|(policy\.unparsed))"
                     r"(?:, layer (\d))?, port (\d+)(?:, comment a flow)?")
SNAP = 80


def v4(src, dst, **fields):
    return V4(number_of(src), number_of(dst), **fields)


# headers, the list that drops the frame ("" : unparsed; None: it passes), what explain is asked, the layer
ROWS = [
    ([v4("203.0.113.5", "8.8.8.8"), udp(1, 2)], "nets", "203.0.113.5", 1),
    ([v4("8.8.8.8", "10.9.9.9"), WithPorts(TCP, 5, 6)], "nets", "10.9.9.9", 1),
    ([Vlan(), v4("8.8.8.8", "10.9.1.2"), Icmp(ICMP, 8, 0)], "nets", "10.9.1.2", 1),
    ([v4("8.8.8.8", "198.51.100.7"), WithPorts(TCP, 5, 443)], "services", "198.51.100.7:443", 1),
    ([v4("192.0.2.77", "198.51.100.8"), udp(5, 53), Data(bytes(200))], "services", "198.51.100.8:53", 1),
    ([V6(number_of("2001:db8:bad::1"), number_of("2001:db8::2")), udp(7, 8)], "six", "2001:db8:bad::1", 1),
    ([v4("8.8.8.8", "9.9.9.9"), v4("8.8.4.4", "10.9.1.2"), udp(1, 2)], "nets", "10.9.1.2", 2),
    ([v4("8.8.8.8", "198.51.100.7"), WithPorts(TCP, 5, 80)], None, None, 1),
    ([v4("203.0.113.200", "8.8.8.8"), udp(1, 2)], None, None, 1),
]
FRAMES = [Frame([Ethernet()] + headers).bytes for headers, _, _, _ in ROWS]
DROPPED = [frame for frame, (_, name, _, _) in zip(FRAMES, ROWS) if name is not None]


class Follower:
    """controlctl drops --follow --json, and what it has printed."""

    def __init__(self, session, *options):
        self.process = subprocess.Popen([os.path.join(BUILD, "control/controlctl"), "drops", "--follow", "--json",
                                         "--socket", session.path("controld.sock"), *options],
                                        stdout=subprocess.PIPE, text=True)
        self.lines, self.gaps = [], []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            line = json.loads(line)
            (self.gaps if "gap" in line else self.lines).append(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.thread.join()


def reload(session, capture):
    write(session.folder, "weir.yaml", POLICY.format(capture=capture))
    equal(controlctl(session, "reload")["ok"], True, "reload")


def settled(session):
    """The counters of capture when nothing is under way any more."""
    last = []

    def is_settled():
        last.append(session.call("capture"))
        return last[-1]["waiting"] == 0 and len(last) > 2 and last[-1] == last[-2] == last[-3]

    session.wait("samples to arrive", is_settled, turn=0.6)  # targets are asked four times a second
    counts = last[-1]
    parts = ("written", "filtered", "limited", "logged", "lost")
    equal(counts["sampled"], sum(counts[part] for part in parts), f"every sample is accounted for: {counts}")
    return counts


def explained(session):
    """{key: {(list, entry, file, line)}}"""
    return {key: {(o["list"], o["entry"], o["file"], o["line"]) for o in controlctl(session, "explain", key)["origins"]}
            for _, name, key, _ in ROWS if name}


def expected_of(frame):
    return next((name, key, layer) for other, (_, name, key, layer) in zip(FRAMES, ROWS) if other == frame)


def every_drop_is_in_the_file(session, near):
    before = session.stats()
    origins, index = explained(session), socket.if_nametoindex("in0")
    rounds = 20
    for _ in range(rounds):
        for frame in FRAMES:
            near.send(frame)
    n = rounds * len(DROPPED)
    session.wait("frames to be dropped", lambda: session.stats()["dropped"] - before["dropped"] >= n)
    counts = settled(session)
    equal(session.stats()["dropped"] - before["dropped"], n, "dropped frames")
    equal((counts["sampled"], counts["written"]), (n, n), f"each dropped frame is a sample: {counts}")
    path, = files(session.path("captures"))
    rows = tshark(path)
    equal(len(rows), n, "frames in the file")
    lengths = {}
    for _, comment, interface, length, captured in rows:
        match = COMMENT.fullmatch(comment)
        check(match, f"comment {comment!r}")
        _, name, entry, file, line, unparsed, layer, port = match.groups()
        check(unparsed is None, f"nothing is unparsed: {comment!r}")
        equal((interface, int(port), captured), ("xdp:in0", index, min(length, SNAP)), f"where from: {comment!r}")
        keys = [key for _, of, key, of_layer in ROWS if of == name and of_layer == int(layer or 1) and
                (name, entry, file, int(line)) in origins[key]]
        check(keys, f"{comment!r} is no entry of explain")
        lengths[length] = lengths.get(length, 0) + 1
    wanted = {}
    for frame in DROPPED:
        wanted[len(frame)] = wanted.get(len(frame), 0) + rounds
    equal(lengths, wanted, "lengths of the frames in the file")

    code, out, err = session.controlctl("drops", "--json")
    equal(code, 0, f"drops: {err}")
    lines = [json.loads(line) for line in out.splitlines()]
    equal(len(lines), n, "lines of drops")
    for line, row in zip(lines, rows):
        told = COMMENT.fullmatch(row[1]).groups()
        equal((str(line["generation"]["number"]), line["list"], line["entry"], line["file"], str(line["line"]),
               line["layer"], str(line["port"])), (*told[:5], int(told[6] or 1), told[7]), "a line and its comment")
        equal((line["target"], line["interface"], line["reason"], line["frame_bytes"], line["one_in"]),
              ("xdp:in0", "in0", "list", row[3], 1), "a line")
        key_answers = controlctl(session, "explain", line["packet"]) if line is lines[0] else None
        if key_answers:
            equal(key_answers["verdict"]["action"], "drop", f"explain of {line['packet']}")
    flow = next(line for line in lines if line["src"] == "192.0.2.77")
    equal((flow["dst"], flow["proto"], flow["sport"], flow["dport"]), ("198.51.100.8", "udp", 5, 53), "a line's packet")
    code, out, err = session.controlctl("drops", "--filter", "icmp or vlan", "--list", "nets")
    equal((code, len(out.splitlines())), (0, rounds), f"drops that a filter wants: {err}\n{out[:2000]}")
    check("icmp" in out and "nets.txt:2" in out and "in0" in out, f"lines for people:\n{out[:500]}")


def a_flood_loses_some(session, near):
    """controld stands still, so that nobody takes samples out of the ring."""
    reload(session, CAPTURE.format("flooded", 10**5, 512))
    before, dropped = settled(session), session.stats()["dropped"]
    flood, n = DROPPED[4], 12000
    pause(session.controld.pid)
    for _ in range(n):
        near.send(flood)
    session.controld.send_signal(signal.SIGCONT)
    session.wait("the flood to be dropped", lambda: session.stats()["dropped"] - dropped >= n)
    after = settled(session)
    equal(after["sampled"] - before["sampled"], n, "sampled frames of a flood")
    lost, written = after["lost"] - before["lost"], after["written"] - before["written"]
    check(lost > 0 and written > 1000, f"a flood: {written} written, {lost} lost")
    equal(lost + written, n, "a flood: written and lost")


def limits_hold(session, near):
    reload(session, CAPTURE.format("limited", 10, SNAP))
    before = settled(session)
    start = time.monotonic()
    for _ in range(200):
        near.send(DROPPED[0])
    near.send(DROPPED[5])
    seconds = time.monotonic() - start + 2  # the first and the last may have begun before
    session.wait("samples", lambda: session.call("capture")["sampled"] - before["sampled"] >= 201)
    after = settled(session)
    grown = {key: after[key] - before[key] for key in ("sampled", "written", "limited", "lost")}
    equal((grown["sampled"], grown["lost"]), (201, 0), f"a limit: {grown}")
    check(11 <= grown["written"] <= 10 * seconds + 1, f"a limit: {grown} in {seconds:.1f} s")


def plan_knows_the_traffic(session, near):
    """Passed and dropped frames: what would pass if the list `six` were gone."""
    candidate = POLICY.format(capture="").replace("name: six, action: drop", "name: six, action: drop, mode: monitor")
    write(session.folder, "new.yaml", candidate)
    last = []

    def is_known():
        for _ in range(10):
            for frame in FRAMES:
                near.send(frame)
        last.append(json.loads(session.controlctl("plan", session.path("new.yaml"), "--json")[1]))
        return (last[-1].get("radius") or {"samples": 0})["samples"] >= 100
    session.wait("samples of the traffic", is_known)
    radius = last[-1]["radius"]
    equal([credit["name"] for credit in radius["credits"]], ["six"], f"who newly passes: {radius}")
    share = radius["newly_passed"]
    check(share["low"] <= 1 / len(FRAMES) * 1.2 and share["high"] >= 1 / len(FRAMES) * 0.8, f"how many newly pass: {share}")


def follows_without_a_section(session, near):
    reload(session, "")
    session.wait("capture to end", lambda: not session.call("capture")["on"])
    session.wait("sampling to end", lambda: not session.call("drops")["sampling"])
    before = session.call("capture")
    for frame in DROPPED:
        near.send(frame)
    time.sleep(1)
    equal(session.call("capture")["sampled"], before["sampled"], "samples while nobody follows")
    with Follower(session) as everything, Follower(session, "--list", "six") as six, \
            Follower(session, "--filter", "tcp port 443") as https, Follower(session, "--rate", "3") as few:
        def all_are_sampled():
            near.send(DROPPED[0])
            return everything.lines and everything.lines[-1]["one_in"] == 1
        session.wait("every drop to be a sample", all_are_sampled, turn=0.1)
        settled(session)
        start = len(everything.lines)
        for _ in range(5):
            for frame in FRAMES:
                near.send(frame)
        n = 5 * len(DROPPED)
        session.wait("lines", lambda: len(everything.lines) - start >= n)
        lines = everything.lines[start:]
        equal(len(lines), n, f"lines of {n} drops")
        for name in ("nets", "services", "six"):
            equal(sum(line["list"] == name for line in lines), 5 * sum(row[1] == name for row in ROWS), f"lines of {name}")
        session.wait("lines of the others", lambda: len(six.lines) >= 5 and len(https.lines) >= 5)
        equal({line["list"] for line in six.lines}, {"six"}, "lines of --list six")
        equal({(line["proto"], line["dport"], line["tcp_flags"]) for line in https.lines}, {("tcp", 443, "syn")},
              "lines of --filter")
        session.wait("a line of what is past --rate", lambda: any(gap["past_rate"] for gap in few.gaps))
        check(not everything.gaps, f"gaps: {everything.gaps}")
        # A flood: the share becomes smaller, and what is past the limit of its list is told.
        stop = time.monotonic() + 3
        while time.monotonic() < stop:
            near.send(DROPPED[0])
        session.wait("a line about the limit", lambda: any(gap["limited"] for gap in everything.gaps))
        check(max(line["one_in"] for line in everything.lines[start:]) > 1, "the share becomes smaller under a flood")
    session.wait("sampling to end", lambda: not session.call("drops")["sampling"])
    counts = settled(session)
    check(counts["logged"] > 0 and not counts["on"], f"counters: {counts}")

    with Follower(session) as follower:
        def told():
            near.send(DROPPED[0])
            return follower.lines
        session.wait("a line", told, turn=0.1)
        session.kill("controld")
        session.start_controld(session.path("weir.yaml"), targets=False, extra=["--bpf-dir", session.path("bpf")])
        session.wait_enforced()

        def told_again():
            near.send(DROPPED[5])
            return any(line["list"] == "six" for line in follower.lines)
        session.wait("lines of another controld", told_again, turn=0.1)


if not shutil.which("tshark"):
    skip("package: no tshark: scripts/setup test installs it")
own_network()
with Session(BUILD) as session, own_bpf_file_system(session.path("bpf")):
    make_veth("out0", "in0")
    subprocess.run(["ethtool", "-K", "out0", "txvlan", "off"], capture_output=True, check=False)
    near, far = Wire("out0"), Wire("in0")
    wait_until_joined(near, far)
    write(session.folder, "nets.txt", "203.0.113.0/24\n10.9.0.0/16\n10.9.9.9\n")
    write(session.folder, "weir.yaml", POLICY.format(capture=CAPTURE.format("captures", 10**5, SNAP)))
    session.start_controld(session.path("weir.yaml"), targets=False, extra=["--bpf-dir", session.path("bpf")])
    session.wait_enforced()
    session.wait("sampling", lambda: session.call("drops")["sampling"])
    time.sleep(1)  # the target has been asked
    every_drop_is_in_the_file(session, near)
    plan_knows_the_traffic(session, near)
    a_flood_loses_some(session, near)
    limits_hold(session, near)
    follows_without_a_section(session, near)
    equal(session.stop("controld"), 0, "controld's exit code")
