"""scripts/replay agrees with the reference classifier frame by frame and byte by byte, on samples, real captures and hostile frames.
It reads every format, keeps times and lengths, names the error in what it refuses, and leaves nothing behind."""

import glob
import gzip
import io
import os
import struct
import subprocess
import tarfile

import pytest

from weir_smoke import (BUILD, ROOT, Capture, agrees_with_reference, as_options, data_file, data_folder, load, make_samples, outputs,
                        read, read_capture, reference, replay, write, write_capture)
from capture import CaptureError

pytestmark = pytest.mark.timeout(180)

LONGEST = 65407  # bytes of a frame of a net_pcap port


# Agreement with the reference.

@pytest.fixture
def samples(folder):
    make_samples(folder)
    return os.path.join(folder, "capture.pcap")


def replayed_samples(folder, samples, policy):
    """Totals, as the reference has them, too."""
    return agrees_with_reference(folder, write(folder, "policy.yaml", "version: 1\n" + policy), samples)


def test_samples_meet_every_kind_of_list(folder, samples):
    totals = agrees_with_reference(folder, os.path.join(folder, "weir.yaml"), samples)
    frames = len(read_capture(samples).frames)
    assert totals["packets"] == frames, "packets"
    assert totals["passed"] + totals["dropped"] == frames, "passed and dropped together"
    for reason in ("malformed", "not_ip", "incomplete", "default_passed"):
        assert totals[reason] > 20, f"the samples have too few frames that are {reason}"
    for name in ("scanners", "abuse", "c2"):
        assert totals["lists"][name]["dropped"] > 100, f"{name} drops"
    assert totals["lists"]["partners"]["passed"] > 100, "partners passes"
    assert totals["lists"]["watch"]["would_drop"] > 100, "watch would drop"
    assert totals["lists"]["watch"]["dropped"] == 0, "packets dropped by a monitored list"


@pytest.mark.parametrize("match", ("src", "dst", "either"))
def test_lists_match_either_side(folder, samples, match):
    totals = replayed_samples(folder, samples, f"""\
lists:
  - {{name: scanners, action: drop, match: {match}, file: feeds/scanners.txt}}
  - {{name: abuse, action: drop, match: {match}, file: feeds/abuse.txt}}
""")
    assert totals["lists"]["scanners"]["dropped"] > 100


def test_lists_match_ports(folder, samples):
    totals = replayed_samples(folder, samples, """\
policy: {default: pass, unparsed: pass}
lists:
  - {name: web, action: drop, match: dst, entries: ["192.0.2.10:443", "[2001:db8::10]:443", "203.0.113.9:53"]}
  - {name: ssh, action: drop, match: either, entries: ["192.0.2.11:22", "192.0.2.12:22"]}
  - {name: answers, action: drop, match: src, entries: ["192.0.2.13:443"]}
""")
    for name in ("web", "ssh", "answers"):
        assert totals["lists"][name]["dropped"] > 10, name


def test_an_allowlist_drops_by_default(folder, samples):
    totals = replayed_samples(folder, samples, """\
policy: {default: drop, unparsed: drop, own: [192.0.2.10, "2001:db8::10"]}
lists:
  - {name: good, action: pass, match: either, entries: [198.19.0.0-198.19.99.255, "2001:db8:180::/41"]}
  - {name: bad, action: drop, match: src, entries: [198.19.50.0/24]}
  - {name: seen, action: drop, mode: monitor, match: either, entries: [198.18.0.0/15]}
""")
    assert totals["default_dropped"] > 100 and "own" not in totals["lists"]


def test_own_addresses_are_cut_out_of_drop_lists(folder, samples):
    lists = """\
lists:
  - {name: wide, action: drop, match: either, entries: [198.19.0.0/17, "198.18.0.0-198.18.200.9", "2001:db8:100::/40"]}
  - {name: named, action: drop, entries: [{src: 198.18.0.0/17}, {dst: 198.18.4.0/22, proto: tcp}]}
  - {name: seen, action: drop, mode: monitor, match: either, entries: [198.18.0.0/15]}
"""
    whole = replayed_samples(folder, samples, "policy: {default: pass}\n" + lists)
    cut = replayed_samples(folder, samples, 'policy: {default: pass, own: [198.18.0.0/19, 198.19.7.0/24, "2001:db8:180::/41"]}\n' + lists)
    for name in ("wide", "seen"):
        assert 0 < cut["lists"][name]["matched"] < whole["lists"][name]["matched"], name
    assert cut["lists"]["named"]["matched"] == whole["lists"]["named"]["matched"] > 0


def test_entries_nest(folder, samples):
    replayed_samples(folder, samples, """\
policy: {default: pass, unparsed: drop}
lists:
  - {name: host, action: drop, entries: [198.19.7.7, 198.19.8.8]}
  - {name: wide, action: drop, match: either, entries: [198.19.0.0/17, 2001:db8:100::/40]}
  - {name: hole, action: pass, entries: [198.19.0.0/18]}
  - {name: everything, action: drop, mode: monitor, allow_any: true, entries: [0.0.0.0/0, "::/0"]}
""")


def test_everything_passes_without_lists(folder, samples):
    totals = replayed_samples(folder, samples, "policy: {default: pass, unparsed: pass}\nlists: []\n")
    assert (totals["passed"], totals["dropped"]) == (len(read_capture(samples).frames), 0)


@pytest.mark.parametrize(("match", "dropped"), (("src", 1046), ("dst", 1170), ("either", 1800)))
@pytest.mark.timeout(300)
def test_real_traffic_has_a_known_answer(folder, match, dropped):
    pcap = data_file(folder, "pcaps/mix_shared.pcap.xz")
    feed = data_file(folder, "blocklists/combined-v4.txt.xz")
    totals = agrees_with_reference(folder, write(folder, "weir.yaml", "version: 1\nlists:\n  - {name: combined, action: drop, "
                                                                      f"match: {match}, file: {feed}}}\n"), pcap)
    assert totals["packets"] == 80027, "packets"
    assert (totals["dropped"], totals["lists"]["combined"]["dropped"]) == (dropped, dropped)


# Half of each address space drops as source, another half as destination, with a hole that passes: a header that one side reads
# wrongly changes a verdict.
HALVES = """\
version: 1
policy: {default: pass, unparsed: drop}
lists:
  - {name: hole, action: pass, match: dst, entries: [192.168.0.0/17, 10.0.0.0/9, "fe80::/10"]}
  - {name: odd, action: drop, match: src, entries: [1.0.0.0/8, 10.0.0.0/8, 128.0.0.0/2, "2001::/17", "fe80::/11"]}
  - {name: far, action: drop, match: dst, entries: [64.0.0.0/2, 224.0.0.0/3, "ff00::/8", "2001:8000::/17"]}
  - {name: both, action: drop, mode: monitor, match: either, entries: [172.16.0.0/12, 192.0.0.0/3, "2000::/3"]}
"""


def files_of(source):
    """The bytes of each file that may be a capture."""
    for path in sorted(glob.glob(f"{source}/*.pcap*")):
        if not path.endswith(".xz"):  # mix_shared has a test of its own
            yield gzip.decompress(read(path)) if path.endswith(".gz") else read(path)
    for path in sorted(glob.glob(f"{source}/*.tar.xz")):
        with tarfile.open(fileobj=io.BytesIO(read(path))) as archive:
            for member in archive:
                if member.isfile():
                    yield archive.extractfile(member).read()


def test_real_and_hostile_captures(folder):
    """Every Ethernet capture of the test data, joined into one: VLAN, MPLS, PPPoE, fragments, extension headers, wrong lengths."""
    source = data_folder("pcaps")
    joined = Capture(nanoseconds=True)
    one = os.path.join(folder, "one")
    for data in files_of(source):
        with open(one, "wb") as file:
            file.write(data)
        try:
            capture = read_capture(one)
        except CaptureError:
            continue  # another link type, or no capture
        for frame, header in zip(capture.frames, capture.headers):
            if len(frame) <= LONGEST:
                joined.frames.append(frame)
                joined.headers.append(header)
    if not joined.frames:
        pytest.skip(f"data: no captures in {source}")
    path = os.path.join(folder, "joined.pcap")
    write_capture(path, joined)
    totals = agrees_with_reference(folder, write(folder, "weir.yaml", HALVES), path)
    for reason in ("dropped", "malformed", "not_ip", "incomplete"):
        assert totals[reason] > 0, f"no frame is {reason}"


# Formats, options, and how it ends.

class Edge:
    """A folder with a policy that drops 198.18.0.1, and a capture."""

    def __init__(self, folder):
        self.folder, self.path = folder, os.path.join(folder, "in.pcap")
        self.policy = write(folder, "weir.yaml", "version: 1\nlists:\n  - {name: bad, action: drop, entries: [198.18.0.1]}\n")
        self.outputs = outputs(folder, "edges")

    def put(self, *frames, **options):
        write_capture(self.path, capture_of(frames), **options)

    def replay(self, *options, **how):
        """The printed text."""
        return replay("--config", self.policy, "--pcap", self.path, *options, **how)

    def replay_once(self):
        """(passed capture, dropped capture, totals, printed text)"""
        text = self.replay("--once", *as_options(self.outputs))
        return read_capture(self.outputs[0]), read_capture(self.outputs[1]), load(self.outputs[2]), text


def frame(last_octet, length=60):
    packet = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 20, 0, 0, 64, 17, 0, 198, 18, 0, last_octet, 192, 0, 2, 1)
    return (bytes(12) + b"\x08\0" + packet).ljust(length, b"\0")[:length]


def capture_of(frames):
    """With times in nanoseconds, and original lengths above the captured ones."""
    return Capture(True, list(frames), [(1767225600 + number, 123456789, len(one) + number) for number, one in enumerate(frames)])


@pytest.fixture
def edge(folder, monkeypatch):
    """It must leave no temporary file."""
    temporary = os.path.join(folder, "tmp")
    os.mkdir(temporary)
    monkeypatch.setenv("TMPDIR", temporary)
    yield Edge(folder)
    assert os.listdir(temporary) == [], "temporary files are left"


def test_a_capture_without_frames_is_replayed(edge):
    edge.put()
    passed, dropped, totals, _ = edge.replay_once()
    assert (passed.frames, dropped.frames, totals["packets"]) == ([], [], 0)
    edge.replay("--seconds", "0.2")


def test_outputs_keep_times_lengths_and_bytes(edge):
    frames = (frame(1), frame(2), b"", frame(1, LONGEST), frame(3, 15), frame(2, LONGEST))
    mixed = capture_of(frames)
    edge.put(*frames, snap_length=60)  # too low: it cuts nothing, and stays
    passed, dropped, totals, _ = edge.replay_once()
    assert (passed.snap_length, dropped.snap_length) == (60, 60), "snap lengths"
    assert passed.nanoseconds and dropped.nanoseconds, "nanoseconds"
    for found, chosen, name in ((passed, (1, 2, 4, 5), "passed"), (dropped, (0, 3), "dropped")):
        assert found.frames == [mixed.frames[i] for i in chosen], f"{name} frames"
        assert found.headers == [mixed.headers[i] for i in chosen], f"{name} record headers"
    assert (totals["bytes"], totals["malformed"]) == (sum(map(len, frames)), 2), "bytes, malformed"
    first = read(edge.outputs[0])
    edge.replay_once()
    assert read(edge.outputs[0]) == first, "a second run writes other bytes"


def test_a_truncated_capture_is_replayed_with_a_warning(edge):
    edge.put(*(frame(1) for _ in range(5)), frame(2, LONGEST))
    with open(edge.path, "r+b") as file:
        file.truncate(os.path.getsize(edge.path) - 1)
    _, _, totals, text = edge.replay_once()
    assert totals["packets"] == 5, "whole frames of a truncated file"
    assert "warning" in text and "ends inside frame 6" in text, text


@pytest.mark.parametrize("order", ("<", ">"), ids=("little-endian", "big-endian"))
def test_a_pcapng_keeps_its_times(edge, order):
    def block(kind, body):
        length = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + length + body + length

    data = block(0x0a0d0d0a, struct.pack(order + "IHHq", 0x1a2b3c4d, 1, 0, -1))
    data += block(1, struct.pack(order + "HxxI", 1, 0))
    for number, octet in enumerate((1, 2)):
        data += block(6, struct.pack(order + "IIIII", 0, 0, 5000000 + number, 60, 60) + frame(octet))
    with open(edge.path, "wb") as file:
        file.write(data)
    passed, dropped, _, _ = edge.replay_once()
    assert (passed.headers, dropped.headers) == ([(5, 1000, 60)], [(5, 0, 60)])


def test_a_frame_that_is_too_long_is_refused(edge):
    edge.put(frame(1), frame(2, LONGEST + 1))
    assert f"frame 2 has {LONGEST + 1} bytes" in edge.replay("--once", expect=2)


def test_a_file_that_is_no_capture_is_refused(edge):
    edge.path = edge.policy
    assert "neither a pcap nor a pcapng" in edge.replay("--once", expect=2)


def test_a_compressed_capture_is_refused_with_the_way_out(edge):
    edge.put(frame(1))
    packed = edge.path + ".gz"
    with gzip.open(packed, "wb") as file:
        file.write(read(edge.path))
    edge.path = packed
    text = edge.replay("--once", expect=2)
    assert "compressed (gzip)" in text and f"`gunzip -k {packed}`" in text, text


def test_a_bad_policy_is_refused_with_its_place(edge):
    edge.put(frame(1))
    edge.policy = write(edge.folder, "bad.yaml", "version: 1\nlists:\n  - {name: bad, action: drop, entries: [198.18.0.1/33]}\n")
    assert "bad.yaml:3:" in edge.replay("--once", expect=2)


def test_bad_options_are_refused(edge):
    edge.put(frame(1))
    for options, error in ((("--plane", "xdp", "--cores", "2"), "runs on one core"), (("--plane", "tc"), "invalid choice"),
                           (("--now", "tomorrow"), "not a time like"), (("--now", "2026-02-30T00:00:00Z"), "not a time like"),
                           (("--passed", edge.path), "need --once"), (("--cores", "0"), "--cores must be"),
                           (("--once", "--cores", "2"), "one core"), (("--seconds", "0"), "above 0")):
        text = edge.replay(*options, expect=2)
        assert error in text, f"{options}: {text}"


def test_one_frame_has_a_rate(edge):
    edge.put(frame(1))
    _, _, totals, text = edge.replay_once()
    assert 0 < totals["seconds"] < 1 and totals["mpps"] > 0 and "0.000 ms" not in text, text


def test_more_workers_than_processors_are_named(edge):
    edge.put(frame(1))
    processors = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, processors)
    assert f"16 workers share {len(processors)} processor" in edge.replay("--seconds", "0.2", "--cores", "16")


def test_a_replay_that_is_terminated_cleans_up(edge):
    edge.put(*(frame(number) for number in range(1, 9)))
    process = subprocess.Popen([os.path.join(ROOT, "scripts/replay"), "--build", BUILD, "--config", edge.policy, "--pcap",
                                edge.path, "--seconds", "600"], stdout=subprocess.PIPE, text=True)
    while "port 0: rx" not in (line := process.stdout.readline()):
        assert line, "the replay ended before it printed rates"
    process.terminate()
    assert process.wait(60) == 143, "exit code"


KEYS = {"packets", "bytes", "passed", "dropped", "malformed", "not_ip", "incomplete", "default_passed",
        "default_dropped", "seconds", "mpps", "generation", "lists"}
LIST_KEYS = {"matched", "dropped", "passed", "would_drop", "matched_bytes", "dropped_bytes"}


@pytest.mark.alone
@pytest.mark.parametrize("cores", (1, 2))
def test_a_looped_capture_drops_its_share(folder, samples, cores):
    config, path = os.path.join(folder, "weir.yaml"), os.path.join(folder, "totals.json")
    once = reference(config, samples, outputs(folder, "reference"))
    text = replay("--config", config, "--pcap", samples, "--seconds", "2", "--cores", str(cores), "--json", path)
    totals = load(path)
    assert set(totals) == KEYS, "members of the JSON"
    for name, numbers in totals["lists"].items():
        assert set(numbers) == LIST_KEYS, f"members of list {name}"
    assert list(totals["lists"]) == list(once["lists"]), "lists"
    assert "s  port 0: rx" in text, f"lines of rates: {text}"
    assert totals["packets"] > 0, totals
    assert totals["packets"] == totals["passed"] + totals["dropped"], "packets"
    assert totals["mpps"] == round(totals["packets"] / totals["seconds"] / 1e6, 6), "mpps"
    # A looped capture has the capture's shares, nearly: the replay may stop within a loop.
    share, expected = totals["dropped"] / totals["packets"], once["dropped"] / once["packets"]
    assert abs(share - expected) < 0.05, f"{share:.3f} of the packets were dropped, {expected:.3f} expected"
