"""A shadow judges live packets by a candidate, and the running policy decides: docs/operate/shadow.md."""

import os
import subprocess
import threading

import pytest

import namespaces
from weir_smoke import (BUILD, controlctl, make_samples, needs_root, read, read_capture, start_loop, start_xdp,
                        write)
from numbered import Book, World, mixture
from order import LONGEST, ORDER, Pipes, numbered_frames, wait_until_silent
from session import Memory
from shadows import ask, frames_that_fit, plain_capture, replayed_difference, shadowed_difference
from wires import PATIENCE_SECONDS, exchange, make_frames, udp_frame

pytestmark = pytest.mark.timeout(300)

on_xdp = needs_root("interfaces need it")

RUNNING = """\
version: 1
policy: {own: [198.51.100.0/28]}
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
ADDED = "203.0.113.77"  # no frame has it
BANS = "  - {name: bans, action: drop, dynamic: true}\n"
ON_XDP = """\
version: 1
targets: [{xdp: {interfaces: [in0]}}]
lists:
  - {name: blocked, action: drop, match: src, entries: ["192.0.2.0/25", "2001:db8:bad::/48"]}
"""  # the list: frames that make_frames() calls blocked
KEPT_MIB = 64         # for others, by kSpareMemory of bpf/enforce/publish.cpp
PACED_FRAMES, PAUSE_SECONDS = 512, 0.002  # leaves others time


def addresses_of(capture):
    """IPv4 addresses of its plain frames, the commonest first."""
    seen = {}
    for frame in capture.frames:
        if frame[12:14] == b"\x08\x00" and len(frame) >= 34:
            for at in (26, 30):
                text = ".".join(map(str, frame[at:at + 4]))
                seen[text] = seen.get(text, 0) + 1
    return sorted(seen, key=lambda text: (-seen[text], text))


def write_policies(folder, **samples):
    """Paths of a policy, a candidate, and a capture of which they judge some frames differently."""
    make_samples(folder, **samples)
    pcap = plain_capture(folder, os.path.join(folder, "capture.pcap"))
    common = addresses_of(read_capture(pcap))
    assert len(common) >= 6, f"the capture has {len(common)} addresses only"
    names = dict(first=common[0], second=", ".join(common[1:3]), third=common[3])
    write(folder, "new/feeds/fresh.txt", "\n".join([common[0], common[4], common[5]]) + "\n")
    return write(folder, "running.yaml", RUNNING % names), write(folder, "new/candidate.yaml", CANDIDATE % names), pcap


@pytest.fixture
def policies(folder):
    return write_policies(folder)


@pytest.fixture
def looped(folder, session):
    """A data plane enforces the policy on a short capture, again and again."""
    running, candidate, pcap = write_policies(folder, flows=200, frames=1000)
    start_loop(session, read_capture(pcap))
    session.start_controld(running)
    session.wait_enforced()
    return running, candidate, pcap


# Counts.


@pytest.mark.parametrize("plane", ["dataplane", pytest.param("xdp", marks=on_xdp)])
def test_counts_are_those_of_a_replay(folder, policies, plane):
    running, candidate, pcap = policies
    if plane == "xdp":
        pcap = frames_that_fit(folder, pcap)
    expected = replayed_difference(BUILD, folder, running, candidate, pcap)
    assert expected["newly_dropped"] > 0 and expected["newly_passed"] > 0, f"the policies differ both ways: {expected}"
    told = shadowed_difference(plane, BUILD, running, candidate, pcap)
    for key, value in expected.items():
        assert told[key] == value, f"the shadow's {key}, and that of a replay"
    assert told["bytes"] == sum(map(len, read_capture(pcap).frames)), "bytes that were judged"
    for key in COUNTS:
        assert sum(row[key] for row in told["lists"]) == told[key], f"sum of {key} over lists"
    assert {row["list"] for row in told["lists"] if row["newly_passed"]} - {"old"} == set(), "lists that drop now"
    assert {row["list"] for row in told["lists"] if row["newly_dropped"]} - {"fresh", "late", "(unparsed)"} == set(), (
        "lists that would drop")
    assert told["flows"], "differing flows were sampled"
    for flow in told["flows"]:
        assert flow["running"].split()[0] != flow["candidate"].split()[0], f"verdicts differ: {flow}"
    target, = told["targets"]
    assert target["acknowledged"] and target["nanoseconds"] > 0, f"the cost of judging: {target}"
    assert target["cycles"] is None if plane == "xdp" else target["cycles"] > 0, f"cycles, of a data plane only: {target}"


@on_xdp
def test_one_in_7_judges_a_seventh_on_xdp(folder, policies):
    running, candidate, pcap = policies
    pcap = frames_that_fit(folder, pcap)
    told = shadowed_difference("xdp", BUILD, running, candidate, pcap, 7)
    frames = len(read_capture(pcap).frames)
    assert abs(told["packets"] - frames / 7) < 2, f"one in 7 of {frames}: {told['packets']}"


def test_one_in_7_judges_a_share_on_a_data_plane(session, looped):
    _, candidate, _ = looped
    begun = ask(session, candidate, "--one-in", "7")
    assert (begun["ok"], begun["on"], begun["one_in"], begun["file"]) == (True, True, 7, candidate), "it has begun"
    session.wait("packets that were judged", lambda: ask(session)["packets"] > 100)
    share = ask(session)["packets"] / session.stats()["packets"]
    assert share < 0.5, f"one in 7 judges about a seventh, not {share:.2f}"
    session.wait("a list that differs", lambda: any(row["list"] == "fresh" for row in ask(session)["lists"]))
    code, out, err = session.controlctl("shadow")
    assert code == 0, f"shown: {err}"
    assert "newly dropped" in out and "fresh" in out and "one batch of packets in 7" in out, f"shown for people:\n{out}"


# Commands, reloads and restarts, with a data plane.


def test_wrong_commands_begin_no_shadow(session, looped):
    _, candidate, _ = looped
    assert ask(session)["on"] == False, "no shadow at the beginning"
    for code, *arguments in ((1, "--promote"), (1, "--discard"), (2, session.path("none.yaml")), (2, candidate, "--one-in", "0"),
                             (2, candidate, "--promote")):
        assert session.controlctl("shadow", *arguments)[0] == code, f"exit code of shadow {arguments}"
    bad = write(session.folder, "bad.yaml", "version: 1\nlists:\n  - {name: x, action: drop, entries: [300.1.1.1]}\n")
    code, _, err = session.controlctl("shadow", bad)
    assert code == 1, "exit code of a bad policy"
    assert "bad.yaml:3:" in err and "300.1.1.1" in err, f"its error names the place: {err}"
    assert ask(session)["on"] == False, "still no shadow"


def test_a_reload_goes_on_and_keeps_the_counts(session, looped):
    running, candidate, _ = looped
    ask(session, candidate)
    session.wait("packets of a list", lambda: any(row["list"] == "old" for row in ask(session)["lists"]))
    write(os.path.dirname(running), "running.yaml", read(running).decode().replace("name: old", "name: older"))
    controlctl(session, "reload")
    session.wait("packets of the new list", lambda: any(row["list"] == "older" for row in ask(session)["lists"]))
    assert any(row["list"] == "old" for row in ask(session)["lists"]), "counts from before the reload are kept"


def test_a_new_data_plane_judges_again_and_a_new_controld_does_not(session, looped):
    running, candidate, pcap = looped
    ask(session, candidate)
    begun = session.log("dataplane").count("a shadow judges")
    session.kill("dataplane")
    start_loop(session, read_capture(pcap))
    session.wait("the shadow in the new data plane", lambda: session.log("dataplane").count("a shadow judges") > begun)
    session.wait("controld to know of it", lambda: ask(session, codes=(0, 3))["targets"][0]["acknowledged"])
    session.stop("controld")
    session.start_controld(running)
    session.wait_enforced()
    session.wait("the data plane to hear of the end", lambda: "the shadow ends" in session.log("dataplane"))
    assert ask(session)["on"] == False, "no shadow after a restart of controld"


def test_a_discarded_shadow_is_not_promoted(session, looped):
    _, candidate, _ = looped
    ask(session, candidate)
    discarded = ask(session, "--discard")
    assert (discarded["on"], discarded["ended"]) == (False, "discarded"), "discarded"
    assert session.controlctl("shadow", "--promote")[0] == 1, "nothing to promote any more"


# Promotions.


def test_a_promotion_publishes_the_bytes_that_judged_and_follows_the_feeds(session, looped):
    _, candidate, _ = looped
    begun = ask(session, candidate)
    promoted = ask(session, "--promote")
    assert (promoted["ok"], promoted.get("overlay_digest")) == (True, None), "promoted without a change"
    assert promoted["enforced_digest"] == begun["digest"], "the digest that judged is enforced"
    assert promoted["generation"] == begun["candidate"], "under its own number"
    with open(os.path.join(os.path.dirname(candidate), "feeds/fresh.txt"), "a", encoding="ascii") as feed:
        feed.write("203.0.113.200\n")
    session.wait("the feed to be read", lambda: session.call("explain", key="203.0.113.200")["as_source"]["reason"] == "fresh")


def has_promoted(session, told, promoted):
    """The candidate is enforced, with what was added while it judged."""
    assert promoted["ok"] == True, f"promoted: {promoted}"
    assert promoted["judged_digest"] == told["digest"], "the digest that judged"
    assert promoted["enforced_digest"] == told["digest"], "the digest that is enforced"
    assert promoted.get("overlay_digest"), "an overlay has the entries that were added since"
    target, = session.call("status")["targets"]
    assert (target["acknowledged"], target["generation"]) == (True, promoted["generation"]), "the target enforces it"
    assert session.call("explain", key=ADDED)["as_source"]["reason"] == "bans", "an entry from before the promotion stays"
    last = ask(session)
    assert last["on"] == False, "the shadow has ended"
    assert last["ended"].startswith("promoted"), f"its end has a reason: {last['ended']}"


def test_a_promotion_on_a_data_plane_loses_no_frame(session):
    """Numbered frames cross it all the time."""
    world = World(18, Pipes.without)
    book, over = Book(world), threading.Event()
    running, candidate = world.write(session.folder)
    for path in running, candidate:
        with open(path, "a", encoding="ascii") as file:
            file.write(BANS)
    order = mixture(world, ORDER, 18)
    lane = Pipes(session, book)
    session.start_dataplane(lane.config, lane.vdevs, 1, Memory(8192, LONGEST))
    session.start_controld(running)
    session.wait_enforced()

    def frames():
        for number, frame in enumerate(numbered_frames(book, order, 1 << 40)):
            yield frame
            if number % PACED_FRAMES == 0 and over.wait(PAUSE_SECONDS):
                return
    sender = threading.Thread(target=lambda: lane.send(frames()), daemon=True)
    sender.start()
    assert ask(session, candidate)["ok"] == True, "begun"
    session.wait("judged packets", lambda: ask(session)["packets"] > 20_000)
    controlctl(session, "add", ADDED, "--list", "bans")
    told = ask(session)
    promoted = ask(session, "--promote")
    session.wait_enforced()
    seen = session.stats()["packets"]
    session.wait("packets after the promotion", lambda: session.stats()["packets"] > seen + 20_000)
    over.set()
    sender.join()
    wait_until_silent(book)
    book.close()
    assert book.faults == {}, f"faults of numbered frames: {book.told}"
    assert told["newly_dropped"] > 0 and told["newly_passed"] > 0, "both differ under traffic"
    assert {row["list"] for row in told["lists"]} == {"changing"}, "the list that differs"
    has_promoted(session, told, promoted)
    assert running in promoted.get("notice", ""), f"it names the file of the next reload: {promoted}"
    history = session.call("history")["generations"]
    assert "promoted" in history[0]["cause"], f"history has it: {history[0]}"


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
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.error = error

    def another_round(self, session):
        seen = self.rounds
        session.wait("a round of traffic", lambda: self.error or self.rounds > seen + 1)
        assert self.error is None, "traffic"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        assert self.error is None, "traffic"


def program_on_in0():
    done = subprocess.run(["ip", "-d", "link", "show", "dev", "in0"], capture_output=True, text=True)
    return done.stdout.partition("prog/xdp id ")[2].partition(" ")[0]


@on_xdp
def test_a_promotion_on_xdp_loses_no_frame(session, veth):
    near, far = veth
    write(session.folder, "weir.yaml", ON_XDP + BANS)
    candidate = write(session.folder, "new.yaml", (ON_XDP + BANS).replace("name: blocked", "name: other").replace(
        '"192.0.2.0/25"', '"192.0.2.0/25", 203.0.112.0/24'))
    start_xdp(session)
    ordinary = program_on_in0()
    with Traffic(near, far) as traffic:
        begun = ask(session, candidate)
        assert (begun["ok"], begun["on"]) == (True, True), f"begun: {begun}"
        assert program_on_in0() not in ("", ordinary), "another program is attached while the shadow judges"
        traffic.another_round(session)
        controlctl(session, "add", ADDED, "--list", "bans")
        told = ask(session)
        assert told["packets"] > 60, f"packets were judged: {told}"
        assert (told["newly_dropped"], told["newly_passed"]) == (0, 0), "both policies judge this traffic alike"
        promoted = ask(session, "--promote")
        session.wait_enforced()
        traffic.another_round(session)
    has_promoted(session, told, promoted)
    assert program_on_in0() == ordinary, "the ordinary program is attached again"
    dropped, marker = bytearray(udp_frame(0, False, 20)), udp_frame(2, False, 20)
    dropped[26:30] = bytes([203, 0, 112, 5])
    near.send(bytes(dropped))
    near.send(marker)
    assert far.receive(PATIENCE_SECONDS) == marker, "the promoted policy drops the frame before it"


# XDP.


@on_xdp
def test_a_killed_controld_leaves_verdicts_as_they_are(session, veth):
    write(session.folder, "weir.yaml", ON_XDP)
    candidate = write(session.folder, "new.yaml", ON_XDP.replace("drop, match", "drop, mode: monitor, match"))
    start_xdp(session)
    ordinary = program_on_in0()
    with Traffic(*veth) as traffic:
        ask(session, candidate)
        traffic.another_round(session)
        told = ask(session)
        assert told["newly_passed"] > 0 and told["newly_dropped"] == 0, f"a candidate whose list only monitors: {told}"
        assert {row["list"] for row in told["lists"]} == {"blocked"}, "the list that drops now"
        session.kill("controld")
        traffic.another_round(session)
        assert program_on_in0() != ordinary, "nobody has attached anything since"
        start_xdp(session)
        session.wait("the ordinary program", lambda: program_on_in0() == ordinary)
        traffic.another_round(session)
        assert ask(session)["on"] == False, "no shadow after a crash of controld"
        begun = ask(session, candidate)
        assert begun["on"] == True, f"another one: {begun}"
        traffic.another_round(session)
        assert ask(session, "--discard")["on"] == False, "discarded"
        assert program_on_in0() == ordinary, "the ordinary program is attached again"
        traffic.another_round(session)
        ask(session, candidate)
        assert session.stop("controld") == 0, "controld's exit code"
        assert program_on_in0() == ordinary, "a controld that stops ends its shadow"
        traffic.another_round(session)


@on_xdp
def test_a_shadow_gives_way_where_the_kernel_has_little_memory(session, veth):
    """/proc/meminfo says so, in this test."""
    def leave(mib):
        write(session.folder, "meminfo", f"MemTotal: 1048576 kB\nMemAvailable: {(KEPT_MIB + mib) << 10} kB\n")

    leave(64)
    namespaces.bind(session.path("meminfo"), "/proc/meminfo")
    more = "  - {name: more, action: drop, file: more.txt}\n"
    write(session.folder, "more.txt", "".join(f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}\n" for i in range(100_000)))
    write(session.folder, "weir.yaml", ON_XDP)
    large, small = write(session.folder, "large.yaml", ON_XDP + more), write(session.folder, "small.yaml", ON_XDP)
    start_xdp(session)
    leave(1)
    target, = ask(session, large, codes=(3,))["targets"]
    assert not target["acknowledged"] and "the kernel has room for 1 MiB" in target["error"], f"refused, with numbers: {target}"
    begun = ask(session, small)
    assert begun["ok"] == True, f"a small candidate has room: {begun}"
    controlctl(session, "reload")
    assert ask(session)["on"] == True, "a reload of the same policy leaves the shadow"
    write(session.folder, "weir.yaml", ON_XDP + more)
    controlctl(session, "reload")
    session.wait_enforced()
    target, = ask(session, codes=(0, 3))["targets"]
    # It has ended, or was tried once more since, and refused.
    assert not target["acknowledged"] and ("has no room for it" in target["error"] or "has room for 0 MiB" in target["error"]), (
        f"the enforced policy comes first: {target}")
    assert session.call("explain", key="10.0.0.7")["as_source"]["reason"] == "more", "the policy that was published in its place"
    assert session.stop("controld") == 0, "controld's exit code"


@on_xdp
def test_a_target_that_attaches_to_no_interface_has_no_shadow(session, veth):
    write(session.folder, "weir.yaml", ON_XDP.replace("[in0]", "[]"))
    start_xdp(session)
    target, = ask(session, write(session.folder, "new.yaml", ON_XDP), codes=(3,))["targets"]
    assert not target["acknowledged"] and "attaches to no interface" in target["error"], f"no shadow there: {target}"
