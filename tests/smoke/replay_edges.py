"""scripts/replay at the edges: no frames, other file formats, truncated files, frames that are too long, outputs that
keep their times, options that are refused, and nothing left behind."""

import gzip
import os
import struct
import subprocess

from weir_smoke import (BUILD, ROOT, Capture, as_options, check, equal, load, outputs, read, read_capture, replay,
                        temporary_folder, write, write_capture)

POLICY = "version: 1\nlists:\n  - {name: bad, action: drop, entries: [198.18.0.1]}\n"
LONGEST = 65407


def frame(last_octet, length=60):
    packet = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 20, 0, 0, 64, 17, 0, 198, 18, 0, last_octet, 192, 0, 2, 1)
    return (bytes(12) + b"\x08\0" + packet).ljust(length, b"\0")[:length]


def capture_of(frames, nanoseconds=False):
    headers = [(1767225600 + number, 123456789 if nanoseconds else 123456, len(f) + number)
               for number, f in enumerate(frames)]
    return Capture(nanoseconds, list(frames), headers)


def replayed(folder, policy, path):
    """(passed capture, dropped capture, totals)"""
    out = outputs(folder, "edges")
    text = replay("--once", "--config", policy, "--pcap", path, *as_options(out))
    return read_capture(out[0]), read_capture(out[1]), load(out[2]), text


with temporary_folder() as folder:
    policy = write(folder, "weir.yaml", POLICY)
    path = os.path.join(folder, "in.pcap")
    temporary = os.path.join(folder, "tmp")  # of the programs under test: must be empty in the end
    os.mkdir(temporary)
    os.environ["TMPDIR"] = temporary

    # No frames at all: once, and looping.
    write_capture(path, capture_of([]))
    passed, dropped, totals, _ = replayed(folder, policy, path)
    equal((passed.frames, dropped.frames, totals["packets"]), ([], [], 0), "of no frames")
    replay("--seconds", "0.2", "--config", policy, "--pcap", path)

    # Nanoseconds, original lengths, an empty frame, the longest frame; as pcap, and cut off.
    mixed = capture_of([frame(1), frame(2), b"", frame(1, LONGEST), frame(3, 15), frame(2, LONGEST)], nanoseconds=True)
    write_capture(path, mixed, snap_length=60)  # a snap length set too low cuts nothing, and stays
    passed, dropped, totals, _ = replayed(folder, policy, path)
    equal((passed.snap_length, dropped.snap_length), (60, 60), "snap lengths")
    check(passed.nanoseconds and dropped.nanoseconds, "nanoseconds stay")
    for found, chosen, name in ((passed, (1, 2, 4, 5), "passed"), (dropped, (0, 3), "dropped")):
        equal(found.frames, [mixed.frames[i] for i in chosen], f"{name} frames")
        equal(found.headers, [mixed.headers[i] for i in chosen], f"{name} record headers")
    equal((totals["bytes"], totals["malformed"]), (sum(map(len, mixed.frames)), 2), "bytes, malformed")
    first = read(outputs(folder, "edges")[0])
    replayed(folder, policy, path)
    check(read(outputs(folder, "edges")[0]) == first, "a second run writes the same bytes")

    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) - 1)
    _, _, totals, text = replayed(folder, policy, path)
    equal(totals["packets"], 5, "whole frames of a truncated file")
    check("warning" in text and "ends inside frame 6" in text, "a truncated file is told of")

    # pcapng, big-endian and little-endian.
    for order in "<>":
        def block(kind, body):
            length = struct.pack(order + "I", len(body) + 12)
            return struct.pack(order + "I", kind) + length + body + length

        data = block(0x0a0d0d0a, struct.pack(order + "IHHq", 0x1a2b3c4d, 1, 0, -1))
        data += block(1, struct.pack(order + "HxxI", 1, 0))
        for number, octet in enumerate((1, 2)):
            data += block(6, struct.pack(order + "IIIII", 0, 0, 5000000 + number, 60, 60) + frame(octet))
        with open(path, "wb") as file:
            file.write(data)
        passed, dropped, _, _ = replayed(folder, policy, path)
        equal((passed.headers, dropped.headers), ([(5, 1000, 60)], [(5, 0, 60)]), f"times of a pcapng, {order}")

    # What is refused, and how.
    write_capture(path, capture_of([frame(1), frame(2, LONGEST + 1)]))
    text = replay("--once", "--config", policy, "--pcap", path, expect=2)
    check(f"frame 2 has {LONGEST + 1} bytes" in text, f"a frame that is too long is named: {text}")
    text = replay("--once", "--config", policy, "--pcap", policy, expect=2)
    check("neither a pcap nor a pcapng" in text, f"a file that is no capture: {text}")
    packed = os.path.join(folder, "in.pcap.gz")
    with gzip.open(packed, "wb") as file:
        file.write(read(path))
    text = replay("--once", "--config", policy, "--pcap", packed, expect=2)
    check("compressed (gzip)" in text and f"`gunzip -k {packed}`" in text, f"a compressed capture: {text}")
    write_capture(path, capture_of([frame(1)]))
    bad = write(folder, "bad.yaml", "version: 1\nlists:\n  - {name: bad, action: drop, entries: [198.18.0.1/33]}\n")
    text = replay("--once", "--config", bad, "--pcap", path, expect=2)
    check("bad.yaml:3:" in text, f"the place of the error in the policy: {text}")

    # A rate for a capture that is through before anybody can look; more workers than processors.
    _, _, totals, text = replayed(folder, policy, path)
    check(0 < totals["seconds"] < 1 and totals["mpps"] > 0 and "0.000 ms" not in text, f"a frame takes its time: {text}")
    text = replay("--seconds", "0.2", "--cores", "16", "--config", policy, "--pcap", path)
    here = len(os.sched_getaffinity(0))
    check(here >= 16 or f"16 workers share {here} processor" in text, f"more workers than processors: {text}")
    for options, expected in ((["--plane", "xdp", "--cores", "2"], "runs on one core"), (["--plane", "tc"], "invalid choice"),
                              (["--now", "tomorrow"], "not a time like"),
                              (["--now", "2026-02-30T00:00:00Z"], "not a time like"),
                              (["--passed", path], "need --once"), (["--cores", "0"], "--cores must be"),
                              (["--once", "--cores", "2"], "one core"), (["--seconds", "0"], "above 0")):
        text = replay("--config", policy, "--pcap", path, *options, expect=2)
        check(expected in text, f"{options}: {text}")

    # Ended in the middle.
    write_capture(path, capture_of([frame(number) for number in range(1, 9)]))
    process = subprocess.Popen([os.path.join(ROOT, "scripts/replay"), "--build", BUILD, "--config", policy, "--pcap",
                                path, "--seconds", "600"], stdout=subprocess.PIPE, text=True)
    while "port 0: rx" not in (line := process.stdout.readline()):
        check(line, "the replay printed rates before it ended")
    process.terminate()
    equal(process.wait(60), 143, "exit code of a replay that was told to end")

    equal(os.listdir(temporary), [], "left behind")
