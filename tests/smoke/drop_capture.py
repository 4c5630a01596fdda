"""Drop capture: tshark opens the files, and the comment of every frame names generation, list, entry, file and line as
`controlctl explain` does, across a reload; limits of lists hold, every sample is accounted for, files rotate, a filter
filters, and a full disk is survived."""

import json
import os
import re
import shutil
import struct
import subprocess

from weir_smoke import (BUILD, Capture, Session, check, controlctl, equal, moved, order_bypass, skip, start_loop, write)
from sample_files import SECOND_NS, files, tshark
from frames import Data, Ethernet, Frame, ICMP, Icmp, TCP, V4, V6, WithPorts, number_of, udp

POLICY = """\
version: 1
policy:
  tunnels: [ipip]
{capture}
lists:
  - {{name: allow, action: pass, entries: [203.0.113.200]}}
  - name: nets
    action: drop
    match: either
    file: nets.txt
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
NETS = "203.0.113.0/24\n10.9.0.0/16\n10.9.9.9\n"
COMMENT = re.compile(r"generation ([0-9a-f]{16})/(\d+), list ([\w-]+), entry (.+), (\S+):(\d+)(?:, layer (\d))?"
                     r", port 0(?:, comment (.+))?")


def v4(src, dst, **fields):
    return V4(number_of(src), number_of(dst), **fields)


# frame, the list that drops it (none: it passes), the address that explain is asked about
ROWS = [
    ([v4("203.0.113.5", "8.8.8.8"), udp(1, 2)], "nets", "203.0.113.5"),
    ([v4("8.8.8.8", "10.9.9.9"), WithPorts(TCP, 5, 6)], "nets", "10.9.9.9"),
    ([v4("8.8.8.8", "198.51.100.7"), WithPorts(TCP, 5, 443)], "services", "198.51.100.7:443"),
    ([v4("192.0.2.77", "198.51.100.8"), udp(5, 53)], "services", "198.51.100.8:53"),
    ([v4("192.0.2.78", "198.51.100.9"), Icmp(ICMP, 8, 0)], "services", "198.51.100.9"),
    ([V6(number_of("2001:db8:bad::1"), number_of("2001:db8::2")), udp(7, 8)], "six", "2001:db8:bad::1"),
    ([v4("8.8.8.8", "9.9.9.9"), v4("8.8.4.4", "10.9.1.2"), udp(1, 2)], "nets", "10.9.1.2"),  # in a tunnel
    ([v4("8.8.8.8", "198.51.100.10", dscp=46, fragment=0x2001), udp(1, 2)], "services", "198.51.100.10"),
    ([v4("8.8.8.8", "198.51.100.10", dscp=46), udp(1, 2), Data(b"x")], "services", "198.51.100.10"),
    ([v4("8.8.8.8", "198.51.100.10", fragment=0x2000), udp(1, 2)], "services", "198.51.100.10"),
    ([v4("8.8.8.8", "198.51.100.10", dscp=46), udp(1, 2)], None, None),
    ([v4("8.8.8.8", "198.51.100.7"), WithPorts(TCP, 5, 80)], None, None),
    ([v4("203.0.113.200", "8.8.8.8"), udp(1, 2)], None, None),
]
# Of several entries with one address, which one is named: by the row's number.
ENTRIES = {7: "dst 198.51.100.10 dscp 10-14,46 fragment later", 8: "dst 198.51.100.10 length 29",
           9: "dst 198.51.100.10 fragment first"}
FRAMES = [Frame([Ethernet()] + headers).bytes for headers, _, _ in ROWS]


def policy(session, capture, nets=NETS):
    write(session.folder, "nets.txt", nets)
    return write(session.folder, "weir.yaml", POLICY.format(capture=capture))


def reload(session):
    answer = controlctl(session, "reload")
    check(answer["ok"], f"reload: {answer}")


def explained(session):
    """{list, address: (generation, (entry, file, line) of that list...)} now."""
    answers = {}
    for _, name, key in ROWS:
        if name:
            answer = controlctl(session, "explain", key)
            origins = {(o["entry"], o["file"], o["line"]) for o in answer["origins"] if o["list"] == name}
            answers[name, key] = (answer["generation"], origins)
    return answers


def blocks(path):
    """(type, body) of every block of a pcapng file."""
    with open(path, "rb") as file:
        data = file.read()
    found, at = [], 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        equal(struct.unpack_from("<I", data, at + length - 4)[0], length, f"length behind a block of {path}")
        found.append((kind, data[at + 8:at + length - 4]))
        at += length
    return found


def packets(path):
    return [body[20:20 + struct.unpack_from("<I", body, 12)[0]] for kind, body in blocks(path) if kind == 6]


def statistics(path):
    """{option: number} of the interface statistics at the end of the file."""
    kind, body = blocks(path)[-1]
    equal(kind, 5, f"last block of {path}")
    numbers, at = {}, 12
    while True:
        option, length = struct.unpack_from("<HH", body, at)
        if option == 0:
            return numbers
        if option >= 4:
            numbers[option] = struct.unpack_from("<Q", body, at + 4)[0]
        at += 4 + (length + 3) // 4 * 4


def at_rest(session):
    """The counters of capture when nothing drops any more."""
    order_bypass(session, "on", "at rest")
    moved(session)
    last = []

    def settled():
        last.append(controlctl(session, "capture"))
        return last[-1]["waiting"] == 0 and len(last) > 2 and last[-1] == last[-2] == last[-3]

    session.wait("samples to arrive", settled, turn=0.6)  # data planes are asked four times a second
    counts = last[-1]
    equal(counts["sampled"], sum(counts[name] for name in ("written", "filtered", "limited", "logged", "lost")),
          f"every sample is accounted for: {counts}")
    equal(controlctl(session, "stats")["capture"]["written"], counts["written"], "stats say the same")
    return counts


def switch_off(session):
    policy(session, "")
    reload(session)
    session.wait("capture to end", lambda: not controlctl(session, "capture")["on"])
    order_bypass(session, "off", "capture is over")


def names_what_dropped(session):
    """Comments, limits, sums, a reload in the middle."""
    folder = session.path("captures")
    session.wait("files", lambda: controlctl(session, "capture")["written"] >= 300)
    before = explained(session)
    policy(session, SECTION, "# one\n# two\n# three\n" + NETS)
    reload(session)
    after = explained(session)
    written = controlctl(session, "capture")["written"]
    session.wait("more", lambda: controlctl(session, "capture")["written"] >= written + 300)
    counts = at_rest(session)
    check(counts["limited"] > 0 and counts["written"] > 0 and counts["filtered"] == 0, f"counts: {counts}")
    part, = files(folder)
    check(part.endswith(".pcapng.part") and part == controlctl(session, "capture")["current"], f"the file is {part}")
    tshark(part)  # as it is written
    switch_off(session)

    path, = files(folder)
    check(path.endswith("Z.pcapng"), f"the file is {path}")
    equal((os.stat(folder).st_mode & 0o777, os.stat(path).st_mode & 0o777), (0o700, 0o600), "modes")
    rows, bodies = tshark(path), packets(path)
    equal((len(rows), len(bodies)), (counts["written"], counts["written"]), "frames in the file")
    expected = {bytes(frame[:SNAP]): (name, key, len(frame), 1 + isinstance(headers[1], V4), ENTRIES.get(number))
                for number, (frame, (headers, name, key)) in enumerate(zip(FRAMES, ROWS)) if name}
    per_second, met = {}, set()
    for (time, comment, interface, length, captured), body in zip(rows, bodies):
        check(body in expected, f"frame {body.hex()} should not have been dropped: {comment}")
        name, key, frame_bytes, layer, wanted = expected[body]
        match = COMMENT.fullmatch(comment)
        check(match, f"comment {comment!r}")
        epoch, number, found, entry, file, line, found_layer, said = match.groups()
        equal(said, "a flow" if entry.startswith("src 192.0.2.0/24 dst 198.51.100.8 ") else None, f"the comment in {comment!r}")
        equal((found, int(found_layer or 1)), (name, layer), f"list and layer of {key}: {comment}")
        answers = [answers[name, key] for answers in (before, after) if answers[name, key][0]["number"] == int(number)]
        check(answers and answers[0][0]["epoch"] == epoch, f"generation in {comment!r}")
        check((entry, file, int(line)) in answers[0][1], f"{comment!r} is not what explain {key} says: {answers[0][1]}")
        equal(wanted or entry, entry, f"the entry in {comment!r}")
        equal((interface, length, captured), (session.path("dataplane.sock"), frame_bytes, min(SNAP, frame_bytes)),
              "interface and lengths")
        second = name, time // SECOND_NS
        per_second[second] = per_second.get(second, 0) + 1
        met.add((key, int(number)))
    for key in {key for _, name, key in ROWS if name}:
        equal(sum(found == key for found, _ in met), 2, f"generations in which {key} was sampled")
    check(max(per_second.values()) == LIMIT, f"samples of a list in a second: {per_second}")
    told = statistics(path)
    equal((told[4], told[5], told[8]), (counts["sampled"], counts["limited"] + counts["lost"], counts["written"]),
          "statistics at the end of the file: received, dropped, delivered")


def rotates(session):
    folder = session.path("rotated")
    policy(session, "capture: {folder: rotated, one_in: 1, per_list_per_second: 100000, file_size: 64KiB, files: 3}")
    reload(session)
    session.wait("many files", lambda: os.path.isdir(folder) and controlctl(session, "capture")["written"] > 3000)
    check(len(files(folder)) <= 3, f"files: {files(folder)}")
    session.wait("samples that are lost at full rate, and counted", lambda: controlctl(session, "capture")["lost"] > 0)
    at_rest(session)
    switch_off(session)
    kept = files(folder)
    equal(len(kept), 3, f"files kept: {kept}")
    for path in kept:
        check(os.path.getsize(path) <= 65536, f"size of {path}")
        equal(len(tshark(path)), statistics(path)[8], f"frames delivered to {path}")


def filters(session):
    folder = session.path("filtered")
    policy(session, "capture: {folder: filtered, one_in: 10, filter: icmp or (udp and dst port 53)}")
    reload(session)
    before = controlctl(session, "capture")
    session.wait("files", lambda: os.path.isdir(folder) and
                 controlctl(session, "capture")["written"] > before["written"] + 10)
    counts = at_rest(session)
    check(counts["filtered"] > before["filtered"], f"filtered: {counts}")
    switch_off(session)
    wanted = {bytes(FRAMES[number]) for number in (3, 4)}
    found = {body for path in files(folder) for body in packets(path)}
    check(found and found <= wanted, f"frames that the filter wants: {[body.hex() for body in found]}")


def follows(session):
    """Without a section capture, `drops --follow` has the data plane sample, as few as can be read, and says what it leaves
    out."""
    policy(session, "")
    reload(session)
    session.wait("capture to end", lambda: not controlctl(session, "capture")["on"])
    before, answers = session.stats(), explained(session)
    command = [os.path.join(BUILD, "control/controlctl"), "drops", "--follow", "--json", "--rate", "50", "--socket",
               session.path("controld.sock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines, gaps = [], []
        while len(lines) < 300 or not gaps:
            line = json.loads(process.stdout.readline())
            (gaps if "gap" in line else lines).append(line)
        process.terminate()
    check(session.stats()["dropped"] - before["dropped"] > 100 * len(lines), "drops stand for many others")
    keys = {}
    for line in lines:
        matches = [key for _, name, key in ROWS if name == line["list"] and
                   (line["entry"], line["file"], line["line"]) in answers[name, key][1]]
        check(matches, f"a line that explain does not know: {line}")
        check(line["one_in"] > 1 and line["target"] == session.path("dataplane.sock"), f"line {line}")
        keys.update({key: line["packet"] for key in matches})
    equal(set(keys), {key for _, name, key in ROWS if name}, "what was followed")
    for packet in keys.values():
        equal(controlctl(session, "explain", packet)["verdict"]["action"], "drop", f"explain {packet}")
    check(any(gap["limited"] for gap in gaps), f"limits are told: {gaps}")
    session.wait("sampling to end", lambda: not session.call("drops")["sampling"])
    sampled = controlctl(session, "capture")["sampled"]
    moved(session)
    equal(controlctl(session, "capture")["sampled"], sampled, "samples when nobody follows any more")


def survives_a_full_disk(session):
    folder = session.path("small")
    os.mkdir(folder)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", folder]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        print("not tried: a full disk (needs the right to mount)")
        return
    try:
        policy(session, "capture: {folder: small, one_in: 1, per_list_per_second: 100000, file_size: 1GiB}")
        reload(session)
        session.wait("the disk to be full", lambda: "No space left" in controlctl(session, "capture")["last_error"])
        lost = controlctl(session, "status")["capture"]["lost"]
        totals, _ = moved(session)
        check(totals["dropped"] > 0, "the policy drops with a full disk")
        reload(session)
        subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
        session.wait("files again", lambda: controlctl(session, "capture")["last_error"] == "")
        counts = at_rest(session)
        check(counts["lost"] >= lost > 0, f"what could not be written is lost: {counts}")
        switch_off(session)
        for path in files(folder):
            tshark(path)
    finally:
        switch_off(session)
        subprocess.run(["umount", folder], check=True)


if not shutil.which("tshark"):
    skip("package: no tshark: scripts/setup test installs it")
SNAP, LIMIT = 64, 50
SECTION = f"capture: {{folder: captures, one_in: 10, per_list_per_second: {LIMIT}, snap_bytes: {SNAP}}}"
with Session(BUILD) as session:
    start_loop(session, Capture(frames=FRAMES * 200, headers=[(1, 0, len(f)) for f in FRAMES] * 200))
    session.start_controld(policy(session, SECTION))
    session.wait_enforced()
    names_what_dropped(session)
    rotates(session)
    filters(session)
    follows(session)
    survives_a_full_disk(session)
    equal(session.stop("controld"), 0, "controld's exit code")
    equal(session.stop("dataplane"), 0, "the data plane's exit code")
