"""tests/rig/world/capture.py reads every kind of capture file, names the damage in others, and sorts the output of a data plane
without guessing. No data plane runs."""

import re
import struct

import pytest

from weir_smoke import Capture, make_samples, read, read_capture, sort_out, split, write_capture
from capture import CaptureError, flow_hash

FRAMES = [b"a" * 14, b"", b"b" * 1514]
TIMES = [(1767225600, 1, 14), (1767225601, 999999, 60), (1767225602, 0, 9000)]
MICROSECONDS, NANOSECONDS = 0xa1b2c3d4, 0xa1b23c4d
BOTH_ORDERS = pytest.mark.parametrize("order", ("<", ">"), ids=("little-endian", "big-endian"))


def classic(order, magic, link_type=1):
    data = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 100, link_type)  # the snap length does not cut
    for frame, (seconds, fraction, original) in zip(FRAMES, TIMES):
        data += struct.pack(order + "IIII", seconds, fraction, len(frame), original) + frame
    return data


def block(order, kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack(order + "II", kind, len(body) + 12) + body + struct.pack(order + "I", len(body) + 12)


def section(order):
    return block(order, 0x0a0d0d0a, struct.pack(order + "IHHq", 0x1a2b3c4d, 1, 0, -1))


def interface(order, link_type=1, snap_length=0, options=b""):
    return block(order, 1, struct.pack(order + "HxxI", link_type, snap_length) + options)


def packet(order, number, units, frame, original):
    return block(order, 6, struct.pack(order + "IIIII", number, units >> 32, units & 0xffffffff, len(frame), original)
                 + frame)


def put(folder, data):
    path = f"{folder}/file"
    with open(path, "wb") as file:
        file.write(data)
    return path


@BOTH_ORDERS
@pytest.mark.parametrize("magic", (MICROSECONDS, NANOSECONDS), ids=("microseconds", "nanoseconds"))
def test_a_pcap_is_read_and_written(folder, order, magic):
    is_nano = magic == NANOSECONDS
    capture = read_capture(put(folder, classic(order, magic)))
    assert (capture.frames, capture.headers, capture.nanoseconds, capture.warning) == (FRAMES, TIMES, is_nano, "")
    write_capture(f"{folder}/rewritten", capture, snap_length=capture.snap_length)
    again = read_capture(f"{folder}/rewritten")
    assert (again.frames, again.headers, again.nanoseconds) == (FRAMES, TIMES, is_nano), "written and read"
    if order == "<":
        assert read(f"{folder}/rewritten") == classic(order, magic), "written: the bytes that were read"


@BOTH_ORDERS
def test_a_pcapng_is_read(folder, order):
    nanoseconds = struct.pack(order + "HHBxxx", 9, 1, 9) + struct.pack(order + "HHq", 14, 8, 1000) + bytes(4)
    binary = struct.pack(order + "HHBxxx", 9, 1, 0x80 | 10)  # 1024 units a second
    data = (section(order) + interface(order) + interface(order, options=nanoseconds)
            + interface(order, options=binary) + block(order, 5, bytes(12))     # statistics: skipped
            + packet(order, 0, 1767225600 * 10**6 + 1, b"a" * 15, 15)
            + packet(order, 1, 7 * 10**9 + 5, b"b", 100)
            + packet(order, 2, 3 * 1024 + 512, b"c" * 60, 60)
            + block(order, 3, struct.pack(order + "I", 4) + b"dddd")             # simple packet: no time
            + block(order, 2, struct.pack(order + "HHIIII", 0, 0, 0, 2000000, 2, 2) + b"ee")
            + section("<") + interface("<", snap_length=2) + block("<", 3, struct.pack("<I", 9) + b"ffff"))
    capture = read_capture(put(folder, data))
    assert capture.frames == [b"a" * 15, b"b", b"c" * 60, b"dddd", b"ee", b"ff"]
    assert capture.headers == [(1767225600, 1000, 15), (1007, 5, 100), (3, 500000000, 60), (0, 0, 4), (2, 0, 2), (0, 0, 9)]
    assert capture.nanoseconds, "pcapng is kept in nanoseconds"


@pytest.mark.parametrize(("data", "error"), (
    pytest.param(classic("<", MICROSECONDS, link_type=101), "link type 101 is not Ethernet", id="raw-ip"),
    pytest.param(section("<") + interface("<", 101) + packet("<", 0, 0, b"x", 1), "link type 101 is not Ethernet", id="raw-ip-in-pcapng"),
    pytest.param(b"version: 1\n", "neither a pcap nor a pcapng", id="text"),
    pytest.param(b"", "neither a pcap nor a pcapng", id="nothing"),
    pytest.param(classic("<", MICROSECONDS) + struct.pack("<IIII", 0, 0, 1 << 30, 1), "damaged at frame 4", id="wild-length"),
    pytest.param(section("<") + packet("<", 0, 0, b"x", 1), "damaged pcapng block at byte 28", id="no-interface")))
def test_a_file_that_is_no_capture_is_refused(folder, data, error):
    with pytest.raises(CaptureError, match=re.escape(error)):
        read_capture(put(folder, data))


def test_a_missing_file_is_refused(folder):
    with pytest.raises(CaptureError, match="No such file"):
        read_capture(f"{folder}/none")


def test_a_truncated_pcap_gives_its_whole_frames_and_a_warning(folder):
    data, ends = classic("<", MICROSECONDS), (24, 54, 70)  # of the file's header and of two frames
    for length in range(ends[0]):
        with pytest.raises(CaptureError, match="file"):
            read_capture(put(folder, data[:length]))
    for length in range(ends[0], len(data) - 1):
        capture = read_capture(put(folder, data[:length]))
        whole = sum(end <= length for end in ends[1:])
        assert capture.frames == FRAMES[:whole], f"frames of {length} bytes"
        assert (capture.warning != "") == (length not in ends), f"warning at {length} bytes"


def test_output_is_sorted_by_the_frames_that_went_in():
    frames = [b"1", b"2", b"1", b"3", b"2"]
    assert sort_out(frames, [b"1", b"1", b"3"], [b"2", b"2"]) == ([0, 2, 3], [1, 4])
    assert sort_out(frames, [b"3", b"1", b"1"], [b"2", b"2"]) == ([0, 2, 3], [1, 4]), "one flow is faster than another"
    assert sort_out([], [], []) == ([], [])


@pytest.mark.parametrize(("passed", "dropped", "error"), (
    pytest.param("11", "22", "frame 4 is lost", id="lost"),
    pytest.param("114", "22", "frame 4 is lost or changed", id="changed"),
    pytest.param("113", "122", "frame 1 came out as passed and as dropped", id="doubled"),
    pytest.param("1139", "22", "1 frames came out that never went in", id="invented")))
def test_wrong_output_is_not_sorted(passed, dropped, error):
    frames, passed, dropped = ([one.encode() for one in text] for text in ("12132", passed, dropped))
    with pytest.raises(CaptureError, match=error):
        sort_out(frames, passed, dropped)


def test_samples_depend_on_their_seed_alone(folder):
    make_samples(folder, flows=200, frames=2000)
    make_samples(f"{folder}/again", flows=200, frames=2000)
    make_samples(f"{folder}/other", seed=2, flows=200, frames=2000)
    for name in ("capture.pcap", "weir.yaml", "weir-second.yaml", "feeds/scanners.txt", "feeds/botnet.txt", "feeds/abuse.txt"):
        assert read(f"{folder}/{name}") == read(f"{folder}/again/{name}"), f"{name} differs for the same seed"
    assert read(f"{folder}/capture.pcap") != read(f"{folder}/other/capture.pcap"), "another seed gives the same capture"


def test_a_capture_is_split_by_flow(folder):
    make_samples(folder, flows=200, frames=2000)
    capture = read_capture(f"{folder}/capture.pcap")
    parts = split(capture, 3)
    assert sorted(frame for part in parts for frame in part.frames) == sorted(capture.frames), "all parts together"
    assert all(len(part.frames) > 100 for part in parts), "a part has too few frames"
    assert [frame for frame in capture.frames if flow_hash(frame) % 3 == 1] == parts[1].frames, "order within a part"
    swapped = [b"\x08\0E" + bytes(11) + a + b for a, b in ((b"\1\2\3\4", b"\5\6\7\x08"), (b"\5\6\7\x08", b"\1\2\3\4"))]
    there, back = (flow_hash(bytes(12) + packet_bytes) for packet_bytes in swapped)
    assert there == back, "both directions of a flow have one hash"
    assert flow_hash(bytes(12) + b"\x08\x06" + bytes(46)) == 0, "queue of ARP"


def test_no_frames_have_no_length():
    assert Capture().longest() == 0
