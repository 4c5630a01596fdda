"""Does anything leak or get lost over billions of packets and thousands of reloads?

A capture loops through the data plane as fast as it goes, while controld reloads two policies in turns that differ in
size and agree on every frame. The capture comes in its order, so the number of packets alone says what every counter
must be.
"""

import os
import re
import time

import port_frames
import port_traffic
from pace import Pace
from ratio import PORT, SPARE_MBUFS
from rig import PlacedSession, say
from session import HUGE_PAGES, Memory
from swaps import reload
from until import until

CONFIG = "forward: hairpin\nports: [{port: 0}]"
TOTALS = ("packets", "passed", "dropped", "default_passed", "rx_missed", "tx_lost")
# Memory may grow so much in the second half. A leak of 1 KiB a reload is 5 MiB in 5,000; huge pages come by 2 MiB.
FLAT_KIB = 4096
MOST_PERIOD_SECONDS = 1
MOST_OVER = 10            # times what the packets should take by their rate
MOST_SETTLE_SECONDS = 10  # until a connection that ended is closed


def open_files(pid, usual):
    """File descriptors; the fewest of some looks, since a connection that just ended may still be open. It is looked at for
    longer while there are more than usual."""
    counts = []

    def are_usual():
        counts.append(len(os.listdir(f"/proc/{pid}/fd")))
        return len(counts) >= 5 and (usual is None or min(counts) <= usual)

    until("connections to be closed", are_usual, MOST_SETTLE_SECONDS, error=None)
    return min(counts)


def count_resources(session, before=None):
    """{program: {"fds", "kib"}}: open file descriptors; memory, huge pages included. before: what was counted last."""
    counts = {}
    for name, process in (("dataplane", session.dataplane), ("controld", session.controld)):
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            kib = {key: int(value.split()[0]) for key, value in (line.split(":", 1) for line in file)
                   if key in ("VmRSS", "HugetlbPages")}
        counts[name] = {"fds": open_files(process.pid, before[name]["fds"] if before else None), "kib": sum(kib.values())}
    return counts


def free_huge_pages():
    with open(HUGE_PAGES, encoding="ascii") as file:
        return int(file.read())


def expected(judged, packets):
    """Counters after so many packets of a capture that loops, of whose frames `judged` names the list."""
    rounds, rest = divmod(packets, len(judged))
    counts = {number: rounds * judged.count(number) + judged[:rest].count(number)
              for number in range(-1, len(port_traffic.SOAK_LISTS))}
    partners, watch, blocked = (counts[number] for number in range(3))
    return {"packets": packets, "passed": packets - blocked, "dropped": blocked, "default_passed": counts[-1] + watch,
            "rx_missed": 0, "tx_lost": 0,
            "lists": {"partners": [partners, 0, partners, 0], "watch": [watch, 0, 0, watch],
                      "blocked": [blocked, blocked, 0, 0]}}


def final_report(log):
    """(counters as in expected(), mbufs that are missing) of what a data plane prints when it ends."""
    counters = {name: int(re.search(rf"^  {name} +(\d+)$", log, re.M)[1]) for name in TOTALS}
    rows = {name: re.search(rf"^  {name}((?: +\d+){{4}})$", log, re.M)[1] for name in port_traffic.SOAK_LISTS}
    counters["lists"] = {name: [int(number) for number in row.split()] for name, row in rows.items()}
    if re.search(r"mbufs, all returned", log):
        return counters, 0
    return counters, int(re.search(r"mbufs, (\d+) MISSING", log)[1])


def differences(found, wanted):
    """Texts."""
    flat = {**{key: value for key, value in wanted.items() if key != "lists"},
            **{f"list {name}": numbers for name, numbers in wanted["lists"].items()}}
    return [f"{key} {value} instead of {wanted_value}" for key, wanted_value in flat.items()
            for value in [found["lists"][key[5:]] if key.startswith("list ") else found[key]] if value != wanted_value]


def grown(samples):
    """Texts: what is not flat. Memory may settle in the first half."""
    start, middle, end = samples
    found = []
    for name in start:
        fds = [sample[name]["fds"] for sample in samples]
        if fds[-1] > min(fds):
            found.append(f"{name} has {', '.join(map(str, fds))} file descriptors")
        growth = end[name]["kib"] - middle[name]["kib"]
        if growth > FLAT_KIB:
            found.append(f"{name} grew by {growth} KiB in the second half")
    return found


def reload_in_turns(session, reloads, period):
    """An even number of reloads, and samples of the resources under the same policy: after the first twentieth, in the
    middle, at the end."""
    samples, pace = [], Pace(period)
    sample_after = [turn + turn % 2 for turn in (max(2, reloads // 20), reloads // 2, reloads)]
    for turn in range(1, sample_after[-1] + 1):
        pace.turn()
        os.replace(write_variant(session, turn), session.path("policy.yaml"))
        reload(session)
        if turn in sample_after:
            samples.append(count_resources(session, samples[-1] if samples else None))
        if turn % 1000 == 0:
            say(f"soak: {turn} reloads, {session.stats()['packets']:,} packets")
    return samples


def write_variant(session, turn):
    with open(session.path("odd.yaml" if turn % 2 else "even.yaml"), encoding="ascii") as source:
        text = source.read()
    with open(session.path("next.yaml"), "w", encoding="ascii") as file:
        file.write(text)
    return session.path("next.yaml")


def measure_soak(build, packets, reloads):
    """{"packets", "reloads", "leaks": texts, "samples", "seconds"}. Reloads are spread over the packets."""
    pages_before = free_huge_pages()
    with PlacedSession(build) as session:
        judged = port_traffic.soak(session.folder)
        os.rename(write_variant(session, 0), session.path("policy.yaml"))
        session.start_dataplane(CONFIG, [PORT.format(pcap=session.path("soak.pcap"))], 1,
                                Memory(len(judged) + SPARE_MBUFS, port_frames.FRAME_BYTES))
        session.start_controld(session.path("policy.yaml"))
        session.wait_enforced()
        began, first = time.monotonic(), session.stats()["packets"]
        session.wait("packets", lambda: session.stats()["packets"] > first and time.monotonic() >= began + 1)
        rate = (session.stats()["packets"] - first) / (time.monotonic() - began)
        period = min(packets / rate / reloads, MOST_PERIOD_SECONDS)
        say(f"soak: {rate / 1e6:.1f} Mpps, {reloads} reloads, one every {period * 1e3:.0f} ms")
        samples = reload_in_turns(session, reloads, period)
        session.wait("the last packets", lambda: session.stats()["packets"] >= packets, MOST_OVER * (60 + packets / rate), turn=1)
        seconds = time.monotonic() - began
        controld_code, dataplane_code = session.stop("controld"), session.stop("dataplane")
        found, missing_mbufs = final_report(session.log("dataplane"))
    leaks = grown(samples) + differences(found, expected(judged, found["packets"]))
    if missing_mbufs:
        leaks.append(f"{missing_mbufs} mbufs are missing")
    for name, code in (("controld", controld_code), ("dataplane", dataplane_code)):
        if code != 0:
            leaks.append(f"{name} ended with {code}")
    return {"packets": found["packets"], "reloads": reloads, "seconds": seconds, "leaks": leaks, "samples": samples,
            "counters": found, "huge_pages": [pages_before, free_huge_pages()]}
