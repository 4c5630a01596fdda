"""Samples of dropped frames, in pcapng files and as `controlctl drops` prints them: docs/operate/capture.md."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from typing import NamedTuple, Optional

import pytest

from weir_smoke import (BUILD, Capture, controlctl, moved, needs_programs, needs_root, order_bypass, pause, start_loop, start_xdp,
                        write)
from frames import ICMP, TCP, V4, V6, Data, Ethernet, Frame, Icmp, Vlan, WithPorts, number_of, udp
from sample_files import SECOND_NS, files, tshark

pytestmark = pytest.mark.timeout(180)

on_xdp = needs_root("interfaces need it")
with_tshark = needs_programs("tshark")

POLICY = """\
version: 1
{targets}
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
      - {{entry: 198.51.100.9, expires: 2099-01-01T00:00:00Z}}
      - {{dst: 198.51.100.10, dscp: [46, 10-14], fragment: later}}
      - {{dst: 198.51.100.10, length: 29}}
      - {{dst: 198.51.100.10, fragment: first}}
  - {{name: six, action: drop, entries: ["2001:db8:bad::/48"]}}
"""
ON_XDP = "targets: [{xdp: {interfaces: [in0]}}]"
NETS = "203.0.113.0/24\n10.9.0.0/16\n10.9.9.9\n"
SNAP, LIMIT = 64, 50
EVERY_DROP = "capture: {{folder: captures, one_in: 1, per_list_per_second: {}, snap_bytes: {}}}"
ALL = 100_000  # the highest limit
COMMENT = re.compile(r"generation (?P<epoch>[0-9a-f]{16})/(?P<number>\d+), list (?P<list>[\w-]+), entry (?P<entry>.+), "
                     r"(?P<file>\S+):(?P<line>\d+)(?:, layer (?P<layer>\d))?, port (?P<port>\d+)(?:, comment (?P<said>.+))?")


class Row(NamedTuple):
    headers: list
    list: Optional[str]  # that drops the frame; none: it passes
    key: Optional[str]   # that explain is asked about
    entry: Optional[str] = None  # of several with one key

    def frame(self):
        return Frame([Ethernet(), *self.headers]).bytes

    def layer(self):
        return sum(isinstance(header, (V4, V6)) for header in self.headers)


def v4(src, dst, **fields):
    return V4(number_of(src), number_of(dst), **fields)


ROWS = [
    Row([v4("203.0.113.5", "8.8.8.8"), udp(1, 2)], "nets", "203.0.113.5"),
    Row([v4("8.8.8.8", "10.9.9.9"), WithPorts(TCP, 5, 6)], "nets", "10.9.9.9"),
    Row([Vlan(), v4("8.8.8.8", "10.9.1.2"), Icmp(ICMP, 8, 0)], "nets", "10.9.1.2"),
    Row([v4("8.8.8.8", "9.9.9.9"), v4("8.8.4.4", "10.9.1.3"), udp(1, 2)], "nets", "10.9.1.3"),
    Row([v4("8.8.8.8", "198.51.100.7"), WithPorts(TCP, 5, 443)], "services", "198.51.100.7:443"),
    Row([v4("192.0.2.77", "198.51.100.8"), udp(5, 53), Data(bytes(200))], "services", "198.51.100.8:53"),
    Row([v4("192.0.2.78", "198.51.100.9"), Icmp(ICMP, 8, 0)], "services", "198.51.100.9"),
    Row([v4("8.8.8.8", "198.51.100.10", dscp=46, fragment=0x2001), udp(1, 2)], "services", "198.51.100.10",
        "dst 198.51.100.10 dscp 10-14,46 fragment later"),
    Row([v4("8.8.8.8", "198.51.100.10", dscp=46), udp(1, 2), Data(b"x")], "services", "198.51.100.10", "dst 198.51.100.10 length 29"),
    Row([v4("8.8.8.8", "198.51.100.10", fragment=0x2000), udp(1, 2)], "services", "198.51.100.10", "dst 198.51.100.10 fragment first"),
    Row([V6(number_of("2001:db8:bad::1"), number_of("2001:db8::2")), udp(7, 8)], "six", "2001:db8:bad::1"),
    Row([v4("8.8.8.8", "198.51.100.10", dscp=46), udp(1, 2)], None, None),
    Row([v4("8.8.8.8", "198.51.100.7"), WithPorts(TCP, 5, 80)], None, None),
    Row([v4("203.0.113.200", "8.8.8.8"), udp(1, 2)], None, None),
]
FRAMES = [row.frame() for row in ROWS]
DROPPED = {row.frame(): row for row in ROWS if row.list}
KEYS = {(row.list, row.key) for row in ROWS if row.list}
LISTS = ("nets", "services", "six")


def first_of(name):
    return next(frame for frame, row in DROPPED.items() if row.list == name)


def policy(session, capture, nets=NETS, targets=""):
    write(session.folder, "nets.txt", nets)
    return write(session.folder, "weir.yaml", POLICY.format(targets=targets, capture=capture))


def reload(session):
    answer = controlctl(session, "reload")
    assert answer["ok"], f"reload: {answer}"


def stop(session):
    for name, _ in session.programs():
        assert session.stop(name) == 0, f"exit code of {name}"


def counters(session):
    return controlctl(session, "capture")


def counters_at_rest(session):
    """When nothing drops."""
    counts = counters(session)
    assert counts["waiting"] == 0, f"samples that wait: {counts}"
    parts = ("written", "filtered", "limited", "logged", "lost")
    assert counts["sampled"] == sum(counts[part] for part in parts), f"every sample is accounted for: {counts}"
    return counts


def explained(session):
    """{list, address: (generation, {(entry, file, line) of that list})} now."""
    answers = {}
    for name, key in KEYS:
        answer = controlctl(session, "explain", key)
        answers[name, key] = (answer["generation"], {(o["entry"], o["file"], o["line"]) for o in answer["origins"] if o["list"] == name})
    return answers


# Files.


def blocks(path):
    """(type, body) of every block of a pcapng file."""
    with open(path, "rb") as file:
        data = file.read()
    at, found = 0, []
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert struct.unpack_from("<I", data, at + length - 4)[0] == length, f"length behind a block of {path}"
        found.append((kind, data[at + 8:at + length - 4]))
        at += length
    return found


def packets(path):
    return [body[20:20 + struct.unpack_from("<I", body, 12)[0]] for kind, body in blocks(path) if kind == 6]


def statistics(path):
    """{option: number} of the interface statistics at the end of the file."""
    kind, body = blocks(path)[-1]
    assert kind == 5, f"last block of {path}"
    numbers, at = {}, 12
    while True:
        option, length = struct.unpack_from("<HH", body, at)
        if option == 0:
            return numbers
        if option >= 4:
            numbers[option] = struct.unpack_from("<Q", body, at + 4)[0]
        at += 4 + (length + 3) // 4 * 4


def samples_in(path, interface, port, *answers):
    """[(row, generation's number, second, comment)] of a file. Each frame has the comment that one of the answers of explained()
    gives reason for."""
    rows, bodies = tshark(path), packets(path)
    assert len(rows) == len(bodies), f"frames in {path}"
    expected = {frame[:SNAP]: (frame, row) for frame, row in DROPPED.items()}
    samples = []
    for (at, text, where, length, captured), body in zip(rows, bodies):
        assert body[:SNAP] in expected, f"frame {body.hex()} should not have been dropped: {text}"
        frame, row = expected[body[:SNAP]]
        comment = COMMENT.fullmatch(text)
        assert comment, f"comment {text!r}"
        said = "a flow" if comment["entry"].startswith("src 192.0.2.0/24 dst 198.51.100.8 ") else None
        assert comment["said"] == said, f"the policy's comment in {text!r}"
        assert (comment["list"], int(comment["layer"] or 1)) == (row.list, row.layer()), f"list and layer of {row.key}: {text}"
        of_generation = [answer[row.list, row.key] for answer in answers
                         if answer[row.list, row.key][0]["number"] == int(comment["number"])]
        assert of_generation and of_generation[0][0]["epoch"] == comment["epoch"], f"generation in {text!r}"
        origins = of_generation[0][1]
        assert (comment["entry"], comment["file"], int(comment["line"])) in origins, f"{text!r}, and explain {row.key}: {origins}"
        assert row.entry in (None, comment["entry"]), f"the entry in {text!r}"
        assert (where, int(comment["port"]), length, captured) == (interface, port, len(frame), min(SNAP, len(frame))), (
            f"interface, port and lengths of {text!r}")
        samples.append((row, int(comment["number"]), at // SECOND_NS, comment))
    return samples


# A data plane: frames loop through it, so that it drops without end.


def start_on_dataplane(session, capture):
    start_loop(session, Capture(frames=FRAMES * 200, headers=[(1, 0, len(frame)) for frame in FRAMES] * 200))
    session.start_controld(policy(session, capture))
    session.wait_enforced()


def end_capture(session):
    """Nothing drops from here on. The counters, when every sample has been written."""
    order_bypass(session, "on", "capture ends")
    moved(session)
    settled(session)  # what still waits when capture ends counts as lost
    policy(session, "")
    reload(session)
    session.wait("capture to end", lambda: not counters(session)["on"])
    counts = counters_at_rest(session)
    assert controlctl(session, "stats")["capture"]["written"] == counts["written"], "written, as stats says"
    return counts


@with_tshark
def test_comments_are_those_of_explain_across_a_reload(session):
    capture = f"capture: {{folder: captures, one_in: 10, per_list_per_second: {LIMIT}, snap_bytes: {SNAP}}}"
    start_on_dataplane(session, capture)
    folder = session.path("captures")
    session.wait("files", lambda: counters(session)["written"] >= 300)
    before = explained(session)
    policy(session, capture, "# one\n# two\n# three\n" + NETS)
    reload(session)
    after = explained(session)
    written = counters(session)["written"]
    session.wait("more", lambda: counters(session)["written"] >= written + 300)
    part, = files(folder)
    assert part.endswith(".pcapng.part") and part == counters(session)["current"], f"the file is {part}"
    pause(session.controld.pid)
    tshark(part)
    session.controld.send_signal(signal.SIGCONT)
    counts = end_capture(session)
    assert counts["limited"] > 0 and counts["written"] > 0 and counts["filtered"] == 0, f"counts: {counts}"

    path, = files(folder)
    assert path.endswith("Z.pcapng"), f"the file is {path}"
    assert (os.stat(folder).st_mode & 0o777, os.stat(path).st_mode & 0o777) == (0o700, 0o600), "modes"
    samples = samples_in(path, session.path("dataplane.sock"), 0, before, after)
    assert len(samples) == counts["written"], "frames in the file"
    generations = {(row.list, row.key, number) for row, number, _, _ in samples}
    assert Counter((name, key) for name, key, _ in generations) == dict.fromkeys(KEYS, 2), "generations in which each key was sampled"
    per_second = Counter((row.list, second) for row, _, second, _ in samples)
    assert max(per_second.values()) == LIMIT, f"samples of a list in a second: {per_second}"
    told = statistics(path)
    assert (told[4], told[5], told[8]) == (counts["sampled"], counts["limited"] + counts["lost"], counts["written"]), (
        "statistics at the end of the file: received, dropped, delivered")
    stop(session)


@with_tshark
def test_files_rotate(session):
    start_on_dataplane(session, f"capture: {{folder: captures, one_in: 1, per_list_per_second: {ALL}, file_size: 64KiB, files: 3}}")
    folder = session.path("captures")
    session.wait("many files", lambda: counters(session)["written"] > 3000)
    assert len(files(folder)) <= 3, f"files: {files(folder)}"
    session.wait("samples that are lost at full rate, and counted", lambda: counters(session)["lost"] > 0)
    end_capture(session)
    kept = files(folder)
    assert len(kept) == 3, f"files kept: {kept}"
    for path in kept:
        assert os.path.getsize(path) <= 65536, f"size of {path}"
        assert len(tshark(path)) == statistics(path)[8], f"frames delivered to {path}"
    stop(session)


def test_a_filter_chooses_frames(session):
    start_on_dataplane(session, "capture: {folder: captures, one_in: 10, filter: icmp or (udp and dst port 53)}")
    session.wait("files", lambda: counters(session)["written"] > 10)
    counts = end_capture(session)
    assert counts["filtered"] > 0, f"filtered: {counts}"
    wanted = {frame[:SNAP] for frame, row in DROPPED.items() if row.key in ("198.51.100.8:53", "198.51.100.9")}
    found = {body[:SNAP] for path in files(session.path("captures")) for body in packets(path)}
    assert found and found <= wanted, f"frames that the filter wants: {[body.hex() for body in found]}"
    stop(session)


@with_tshark
@needs_root("a small disk is mounted")
def test_a_full_disk_loses_samples_and_nothing_else(session):
    folder = session.path("captures")
    os.mkdir(folder)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", folder], check=False).returncode != 0:
        pytest.skip("kernel: no tmpfs can be mounted")
    try:
        start_on_dataplane(session, f"capture: {{folder: captures, one_in: 1, per_list_per_second: {ALL}, file_size: 1GiB}}")
        session.wait("the disk to be full", lambda: "No space left" in counters(session)["last_error"])
        lost = counters(session)["lost"]
        totals, _ = moved(session)
        assert totals["dropped"] > 0, "the policy drops with a full disk"
        reload(session)
        subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
        session.wait("files again", lambda: counters(session)["last_error"] == "")
        counts = end_capture(session)
        assert counts["lost"] >= lost > 0, f"samples that could not be written are lost: {counts}"
        for path in files(folder):
            tshark(path)
        stop(session)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


# XDP: the test sends each frame that it drops.


def start_on_xdp(session, near, limit=ALL, snap=SNAP):
    """Captures. When this returns, every drop is a sample. The counters then."""
    policy(session, EVERY_DROP.format(limit, snap), targets=ON_XDP)
    start_xdp(session)

    def is_sampled():
        near.send(first_of("nets"))
        return counters(session)["sampled"]
    session.wait("a sample", is_sampled)
    near.send(first_of("six"))  # arrives behind the others
    session.wait("the sample of a marker", lambda: session.controlctl("drops", "--list", "six", "--json")[1])
    return settled(session)


def settled(session, sampled=0):
    """The counters, when so many samples have arrived and none waits."""
    session.wait("samples to arrive", lambda: counters(session)["sampled"] >= sampled and counters(session)["waiting"] == 0)
    return counters_at_rest(session)


def grown(before, after):
    return {key: after[key] - value for key, value in before.items() if isinstance(value, int) and not isinstance(value, bool)}


@on_xdp
@with_tshark
def test_every_drop_of_xdp_is_in_the_file_and_printed(session, veth):
    near, _ = veth
    start_counts, before = start_on_xdp(session, near), session.stats()
    rounds = 20
    for frame in FRAMES * rounds:
        near.send(frame)
    n = rounds * len(DROPPED)
    session.wait("frames to be dropped", lambda: session.stats()["dropped"] - before["dropped"] >= n)
    counts = grown(start_counts, settled(session, start_counts["sampled"] + n))
    assert session.stats()["dropped"] - before["dropped"] == n, "dropped frames"
    assert (counts["sampled"], counts["written"]) == (n, n), f"each dropped frame is a sample: {counts}"
    path, = files(session.path("captures"))
    samples = samples_in(path, "xdp:in0", socket.if_nametoindex("in0"), explained(session))
    assert len(samples) == start_counts["written"] + n, "frames in the file"
    assert Counter(row.frame() for row, _, _, _ in samples[-n:]) == dict.fromkeys(DROPPED, rounds), "frames of each row in the file"

    code, out, err = session.controlctl("drops", "--json")
    assert code == 0, f"drops: {err}"
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == len(samples), "lines of drops"
    for line, (row, number, _, comment) in zip(lines, samples):
        assert (line["generation"]["number"], line["list"], line["entry"], line["file"], line["line"], line["layer"], line["port"]) == (
            number, row.list, comment["entry"], comment["file"], int(comment["line"]), row.layer(), int(comment["port"])), (
            "a line and its comment")
        assert (line["target"], line["interface"], line["reason"], line["frame_bytes"], line["one_in"]) == (
            "xdp:in0", "in0", "list", len(row.frame()), 1), "a line"
    assert controlctl(session, "explain", lines[-1]["packet"])["verdict"]["action"] == "drop", f"explain of {lines[-1]['packet']}"
    flow = next(line for line in lines if line["src"] == "192.0.2.77")
    assert (flow["dst"], flow["proto"], flow["sport"], flow["dport"]) == ("198.51.100.8", "udp", 5, 53), "a line's packet"
    # --rate is for what comes; it must not cut the newest ones off.
    code, out, err = session.controlctl("drops", "--last", "3", "--rate", "1")
    shown = out.splitlines()
    assert [line.split()[0] for line in shown[:3]] == [line["time"] for line in lines[-3:]], f"the newest drops: {err}\n{out}"
    assert shown[3:] == [f"(left out: {len(lines) - 3} earlier ones; --last {len(lines)} shows all)"], out
    code, out, err = session.controlctl("drops", "--filter", "icmp or vlan", "--list", "nets")
    assert (code, len(out.splitlines())) == (0, rounds), f"drops that a filter wants: {err}\n{out[:2000]}"
    assert "icmp" in out and "nets.txt:2" in out and "in0" in out, f"lines for people:\n{out[:500]}"
    stop(session)


@on_xdp
def test_plan_knows_the_traffic_of_xdp(session, veth):
    """Passed and dropped frames: some would pass without the list `six`."""
    near, _ = veth
    start_on_xdp(session, near)
    candidate = POLICY.format(targets=ON_XDP, capture="").replace("name: six, action: drop", "name: six, action: drop, mode: monitor")
    write(session.folder, "new.yaml", candidate)
    last = []

    def is_known():
        for frame in FRAMES * 10:
            near.send(frame)
        last.append(json.loads(session.controlctl("plan", session.path("new.yaml"), "--json")[1]))
        return (last[-1].get("radius") or {"samples": 0})["samples"] >= 100
    session.wait("samples of the traffic", is_known)
    radius = last[-1]["radius"]
    assert [credit["name"] for credit in radius["credits"]] == ["six"], f"lists whose packets newly pass: {radius}"
    share = radius["newly_passed"]
    assert share["low"] <= 1 / len(FRAMES) * 1.2 and share["high"] >= 1 / len(FRAMES) * 0.8, f"share that newly passes: {share}"
    stop(session)


@on_xdp
def test_a_flood_of_xdp_loses_some_samples_and_counts_them(session, veth):
    """controld stands still, so that nobody takes samples out of the ring."""
    near, _ = veth
    before, dropped = start_on_xdp(session, near, snap=512), session.stats()["dropped"]
    flood, n = next(frame for frame, row in DROPPED.items() if row.key == "198.51.100.8:53"), 12000
    pause(session.controld.pid)
    for _ in range(n):
        near.send(flood)
    session.controld.send_signal(signal.SIGCONT)
    session.wait("the flood to be dropped", lambda: session.stats()["dropped"] - dropped >= n)
    counts = grown(before, settled(session, before["sampled"] + n))
    assert counts["sampled"] == n, "sampled frames of a flood"
    assert counts["lost"] > 0 and counts["written"] > 1000, f"a flood: {counts}"
    assert counts["lost"] + counts["written"] == n, f"a flood: {counts}"
    stop(session)


@on_xdp
@with_tshark
def test_each_list_of_xdp_has_a_limit_per_second(session, veth):
    near, _ = veth
    before = start_on_xdp(session, near, limit=10)
    begin = time.monotonic()
    for _ in range(200):
        near.send(first_of("nets"))
    near.send(first_of("six"))
    counts = grown(before, settled(session, before["sampled"] + 201))
    seconds = 2 + int(time.monotonic() - begin)  # of the limit, that the samples may have met
    assert (counts["sampled"], counts["lost"]) == (201, 0), f"a limit: {counts}"
    path, = files(session.path("captures"))
    samples = samples_in(path, "xdp:in0", socket.if_nametoindex("in0"), explained(session))[before["written"]:]
    written = Counter(row.list for row, *_ in samples)
    assert 1 <= written["nets"] <= 10 * seconds and written["six"] == 1, f"samples of a list in {seconds} s: {written}"
    assert counts["limited"] > 0 and samples[-1][0].list == "six", f"another list has a limit of its own: {counts}"
    stop(session)


# `controlctl drops --follow`: drops are sampled without a section capture.


class Follower:
    """controlctl drops --follow --json, and the lines that it has printed."""

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


def wait_for_end_of_sampling(session):
    session.wait("sampling to end", lambda: not session.call("drops")["sampling"])


def test_a_follower_of_a_data_plane_sees_a_share(session):
    start_on_dataplane(session, "")
    before, answers = session.stats(), explained(session)
    with Follower(session, "--rate", "50") as follower:
        session.wait("lines, and one about a limit", lambda: len(follower.lines) >= 300 and any(gap["limited"] for gap in follower.gaps))
        lines = list(follower.lines)
    assert session.stats()["dropped"] - before["dropped"] > 100 * len(lines), "drops stand for many others"
    keys = {}
    for line in lines:
        origin = line["entry"], line["file"], line["line"]
        matches = [key for name, key in KEYS if name == line["list"] and origin in answers[name, key][1]]
        assert matches, f"a line that explain does not know: {line}"
        assert line["one_in"] > 1 and line["target"] == session.path("dataplane.sock"), f"line {line}"
        keys.update({key: line["packet"] for key in matches})
    assert set(keys) == {key for _, key in KEYS}, "keys of the lines"
    for packet in keys.values():
        assert controlctl(session, "explain", packet)["verdict"]["action"] == "drop", f"explain {packet}"
    wait_for_end_of_sampling(session)
    sampled = counters(session)["sampled"]
    moved(session)
    assert counters(session)["sampled"] == sampled, "samples when nobody follows any more"
    stop(session)


def start_without_capture(session):
    policy(session, "", targets=ON_XDP)
    start_xdp(session)


def wait_for_line(session, near, follower, name, holds=bool):
    """Sends a frame of the list until a line of it is printed; how many were sent."""
    sent = []

    def is_told():
        near.send(first_of(name))
        sent.append(name)
        return any(line["list"] == name and holds(line) for line in follower.lines)
    session.wait(f"a line of {name}", is_told, turn=0.1)
    return len(sent)


@on_xdp
def test_xdp_samples_nothing_while_nobody_follows(session, veth):
    near, _ = veth
    start_without_capture(session)
    assert not session.call("drops")["sampling"], "sampling without a follower"
    others = [frame for frame, row in DROPPED.items() if row.list != "six"]
    for frame in others * 200:
        near.send(frame)
    with Follower(session) as follower:
        sent = wait_for_line(session, near, follower, "six")
        assert {line["list"] for line in follower.lines} == {"six"}, "lines of frames from before"
    wait_for_end_of_sampling(session)
    counts = counters_at_rest(session)
    assert 0 < counts["sampled"] <= sent, f"samples of {sent} frames: {counts}"
    assert counts["logged"] > 0 and not counts["on"], f"counters: {counts}"
    stop(session)


@on_xdp
def test_followers_of_xdp_see_the_drops_that_they_want(session, veth):
    near, _ = veth
    start_without_capture(session)
    with Follower(session) as everything, Follower(session, "--list", "six") as six, \
            Follower(session, "--filter", "tcp port 443") as https, Follower(session, "--rate", "3") as few:
        wait_for_line(session, near, everything, "nets", lambda line: line["one_in"] == 1)
        near.send(first_of("six"))  # arrives behind the others
        session.wait("the line of a marker", lambda: any(line["list"] == "six" for line in everything.lines))
        begin = len(everything.lines)
        for frame in FRAMES * 5:
            near.send(frame)
        n = 5 * len(DROPPED)
        session.wait("lines", lambda: len(everything.lines) - begin >= n)
        lines = everything.lines[begin:]
        assert len(lines) == n, f"lines of {n} drops"
        for name in LISTS:
            assert sum(line["list"] == name for line in lines) == 5 * sum(row.list == name for row in ROWS), f"lines of {name}"
        session.wait("lines of the others", lambda: len(six.lines) >= 5 and len(https.lines) >= 5)
        assert {line["list"] for line in six.lines} == {"six"}, "lines of --list six"
        assert {(line["proto"], line["dport"], line["tcp_flags"]) for line in https.lines} == {("tcp", 443, "syn")}, "lines of --filter"
        session.wait("a line of what is past --rate", lambda: any(gap["past_rate"] for gap in few.gaps))
        assert not everything.gaps, f"gaps: {everything.gaps}"

        def has_flood():
            for _ in range(1000):
                near.send(first_of("nets"))
            return any(gap["limited"] for gap in everything.gaps) and everything.lines[-1]["one_in"] > 1
        session.wait("a line about the limit, and a smaller share", has_flood)
    stop(session)


@on_xdp
def test_a_follower_reconnects_to_another_controld(session, veth):
    near, _ = veth
    start_without_capture(session)
    with Follower(session) as follower:
        wait_for_line(session, near, follower, "nets")
        session.kill("controld")
        start_xdp(session)
        wait_for_line(session, near, follower, "six")
    stop(session)
