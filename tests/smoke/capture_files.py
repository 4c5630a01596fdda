"""tests/rig/world/capture.py: every kind of capture file is read frame by frame, damaged ones are refused in words, and
what comes out of a data plane is sorted without guessing. Starts no data plane."""

import struct

from weir_smoke import Capture, check, equal, read, read_capture, split, temporary_folder, write, write_capture
from capture import CaptureError, flow_hash, sort_out
from samples import make_samples

FRAMES = [b"a" * 14, b"", b"b" * 1514]
TIMES = [(1767225600, 1, 14), (1767225601, 999999, 60), (1767225602, 0, 9000)]


def classic(order, magic, link_type=1, frames=FRAMES):
    data = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 100, link_type)  # the snap length does not cut
    for frame, (seconds, fraction, original) in zip(frames, TIMES):
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


def refused(what, path, expected):
    try:
        read_capture(path)
    except CaptureError as error:
        check(expected in str(error), f"{what}: '{expected}' is not in '{error}'")
        return
    check(False, f"{what}: was read")


def reads_classic(folder):
    for order in "<>":
        for magic, nanoseconds in ((0xa1b2c3d4, False), (0xa1b23c4d, True)):
            capture = read_capture(put(folder, classic(order, magic)))
            equal((capture.frames, capture.headers, capture.nanoseconds, capture.warning),
                  (FRAMES, TIMES, nanoseconds, ""), f"classic pcap {order}{magic:x}")
            write_capture(f"{folder}/rewritten", capture, snap_length=capture.snap_length)
            again = read_capture(f"{folder}/rewritten")
            equal((again.frames, again.headers, again.nanoseconds), (FRAMES, TIMES, nanoseconds), "written and read")
            if order == "<":
                equal(read(f"{folder}/rewritten"), classic(order, magic), "written: the bytes that were read")


def reads_pcapng(folder):
    for order in "<>":
        nanoseconds = struct.pack(order + "HHBxxx", 9, 1, 9) + struct.pack(order + "HHq", 14, 8, 1000) + bytes(4)
        binary = struct.pack(order + "HHBxxx", 9, 1, 0x80 | 10)  # 1024 units a second
        data = (section(order) + interface(order) + interface(order, options=nanoseconds)
                + interface(order, options=binary) + block(order, 5, bytes(12))     # statistics: stepped over
                + packet(order, 0, 1767225600 * 10**6 + 1, b"a" * 15, 15)
                + packet(order, 1, 7 * 10**9 + 5, b"b", 100)
                + packet(order, 2, 3 * 1024 + 512, b"c" * 60, 60)
                + block(order, 3, struct.pack(order + "I", 4) + b"dddd")             # simple packet: no time
                + block(order, 2, struct.pack(order + "HHIIII", 0, 0, 0, 2000000, 2, 2) + b"ee")
                + section("<") + interface("<", snap_length=2) + block("<", 3, struct.pack("<I", 9) + b"ffff"))
        capture = read_capture(put(folder, data))
        equal(capture.frames, [b"a" * 15, b"b", b"c" * 60, b"dddd", b"ee", b"ff"], f"pcapng {order} frames")
        equal(capture.headers, [(1767225600, 1000, 15), (1007, 5, 100), (3, 500000000, 60), (0, 0, 4), (2, 0, 2),
                                (0, 0, 9)], f"pcapng {order} record headers")
        check(capture.nanoseconds, "pcapng is kept in nanoseconds")


def refuses(folder):
    refused("raw IP", put(folder, classic("<", 0xa1b2c3d4, link_type=101)), "link type 101 is not Ethernet")
    refused("raw IP in pcapng", put(folder, section("<") + interface("<", 101) + packet("<", 0, 0, b"x", 1)),
            "link type 101 is not Ethernet")
    refused("text", write(folder, "text", "version: 1\n"), "neither a pcap nor a pcapng")
    refused("nothing", put(folder, b""), "neither a pcap nor a pcapng")
    refused("a missing file", f"{folder}/none", "No such file")
    refused("a wild length", put(folder, classic("<", 0xa1b2c3d4) + struct.pack("<IIII", 0, 0, 1 << 30, 1)),
            "damaged at frame 4")
    refused("an interface that is not there", put(folder, section("<") + packet("<", 0, 0, b"x", 1)),
            "damaged pcapng block at byte 28")
    for length in range(len(classic("<", 0xa1b2c3d4)) - 1):  # truncated anywhere: whole frames, a warning, or refused
        data = classic("<", 0xa1b2c3d4)[:length]
        if length < 24:
            refused(f"{length} bytes", put(folder, data), "file")
        else:
            capture = read_capture(put(folder, data))
            whole = [end for end in (24, 54, 70) if end <= length]
            equal(capture.frames, FRAMES[:len(whole) - 1], f"frames of {length} bytes")
            equal(capture.warning != "", length not in (24, 54, 70), f"warning at {length} bytes")


def sorts():
    frames = [b"1", b"2", b"1", b"3", b"2"]
    equal(sort_out(frames, [b"1", b"1", b"3"], [b"2", b"2"]), ([0, 2, 3], [1, 4]), "sorted")
    equal(sort_out(frames, [b"3", b"1", b"1"], [b"2", b"2"]), ([0, 2, 3], [1, 4]), "flows overtake each other")
    equal(sort_out([], [], []), ([], []), "nothing sorted")
    for what, passed, dropped, expected in (
            ("lost", [b"1", b"1"], [b"2", b"2"], "frame 4 is lost"),
            ("changed", [b"1", b"1", b"4"], [b"2", b"2"], "frame 4 is lost or changed"),
            ("doubled", [b"1", b"1", b"3"], [b"1", b"2", b"2"], "frame 1 came out as passed and as dropped"),
            ("invented", [b"1", b"1", b"3", b"9"], [b"2", b"2"], "1 frames came out that never went in")):
        try:
            sort_out(frames, passed, dropped)
        except CaptureError as error:
            check(expected in str(error), f"{what}: '{expected}' is not in '{error}'")
        else:
            check(False, f"{what}: was not noticed")


def splits(folder):
    make_samples(folder, flows=200, frames=2000)
    make_samples(f"{folder}/again", flows=200, frames=2000)
    make_samples(f"{folder}/other", seed=2, flows=200, frames=2000)
    for name in ("capture.pcap", "weir.yaml", "weir-second.yaml", "feeds/scanners.txt", "feeds/botnet.txt",
                 "feeds/abuse.txt"):
        check(read(f"{folder}/{name}") == read(f"{folder}/again/{name}"), f"{name} is the same for the same seed")
    check(read(f"{folder}/capture.pcap") != read(f"{folder}/other/capture.pcap"), "another seed, another capture")

    capture = read_capture(f"{folder}/capture.pcap")
    parts = split(capture, 3)
    equal(sorted(frame for part in parts for frame in part.frames), sorted(capture.frames), "all parts together")
    check(all(len(part.frames) > 100 for part in parts), "every part has its share")
    equal([frame for frame in capture.frames if flow_hash(frame) % 3 == 1], parts[1].frames, "order within a part")
    swapped = [b"\x08\0E" + bytes(11) + a + b for a, b in ((b"\1\2\3\4", b"\5\6\7\x08"), (b"\5\6\7\x08", b"\1\2\3\4"))]
    equal(*[flow_hash(bytes(12) + packet_bytes) for packet_bytes in swapped], "hash of both directions")
    equal(flow_hash(bytes(12) + b"\x08\x06" + bytes(46)), 0, "queue of ARP")


with temporary_folder() as folder:
    reads_classic(folder)
    reads_pcapng(folder)
    refuses(folder)
    splits(folder)
    equal(Capture().longest(), 0, "longest of no frames")
sorts()
