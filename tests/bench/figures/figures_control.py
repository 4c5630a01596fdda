"""Figures of controld alone: what a reload costs that changes nothing, and one explain among ten million entries.
docs/develop/figures.md says how each is measured."""

import os
import statistics
import time

from figure import at_most
from ratio import COMBINED
from rig import PlacedSession, say, spread, test_data
from session import SessionError

ROUNDS = 5
UNCHANGED_RATIO, EXPLAIN_MS = 0.6, 5
CONFIG = "forward: sink\nports: [{port: 0}]"
EXPLAIN_HOSTS = 10_000_000
EXPLAIN_CALLS = 200
# A host list, with a network so that it is searched as lists with ranges are.
EXPLAIN_POLICY = ("version: 1\ntargets: []\nfilter: {{memory: 4GiB}}\nlists:\n"
                  "  - {{name: hosts, action: drop, match: src, entries: [10.0.0.0/8], file: {path}}}\n")
STEP = 2654435761  # odd: multiples modulo 2^32 are all different


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def reload(session):
    answer = session.call("reload")
    if not answer.get("ok"):
        raise SessionError(f"reload failed: {answer}")
    return answer


def reload_unchanged(build, folder):
    """Each round: combined-v4 read and compiled as for the first time (what its entries are compared with has changed),
    then once more with nothing changed."""
    combined = test_data("blocklists/combined-v4.txt.xz", folder)
    rounds = []
    with PlacedSession(build) as session:
        policy = session.path("policy.yaml")
        write(policy, COMBINED.format(path=combined).replace("match: src", "match: either"))
        session.start_dataplane(CONFIG, ["net_null0"], 1)
        session.start_controld(policy)
        session.wait_enforced()
        say(f"house: {ROUNDS} reloads of combined-v4 anew and unchanged")
        time.sleep(2.5)  # until the file that was unpacked just now counts as settled
        for i in range(ROUNDS):
            write(policy, COMBINED.format(path=combined).replace("match: src", f"match: {'src' if i % 2 else 'dst'}"))
            rounds.append({"first": reload(session), "unchanged": reload(session)})
    ratios = [one["unchanged"]["total_ms"] / one["first"]["total_ms"] for one in rounds]
    ms = {name: statistics.median(one[name]["total_ms"] for one in rounds) for name in ("first", "unchanged")}
    note = f"{spread(ratios)}; {ms['unchanged']:.0f} of {ms['first']:.0f} ms"
    return [at_most("house.reload_unchanged_ratio", statistics.median(ratios), UNCHANGED_RATIO, "ratio", note)], rounds


def write_hosts(path, count):
    octets = [str(i) for i in range(256)]
    with open(path, "w", encoding="ascii") as file:
        for begin in range(0, count, 1 << 16):
            hosts = (i * STEP % 2**32 for i in range(begin, min(begin + (1 << 16), count)))
            file.write("".join(f"{octets[h >> 24]}.{octets[h >> 16 & 255]}.{octets[h >> 8 & 255]}.{octets[h & 255]}\n"
                               for h in hosts))


def address(number):
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def explain_10m(build, folder):
    """From the request to the whole answer, over controld's socket: connection and JSON are in it."""
    feed = os.path.join(folder, "hosts.txt")
    say(f"house: explain among {EXPLAIN_HOSTS} hosts")
    write_hosts(feed, EXPLAIN_HOSTS)
    milliseconds = []
    with PlacedSession(build) as session:
        write(session.path("policy.yaml"), EXPLAIN_POLICY.format(path=feed))
        session.start_controld(session.path("policy.yaml"), targets=False)
        entries = session.call("status")["entries"]
        if entries != EXPLAIN_HOSTS + 1:
            raise SessionError(f"controld has {entries} entries")
        begin = time.monotonic()
        session.call("explain", key="192.0.2.1")
        first_ms = (time.monotonic() - begin) * 1e3  # opens and checks the snapshot, once a generation
        for i in range(EXPLAIN_CALLS):
            number = i * 49999 * STEP % 2**32
            listed = i % 2 == 0
            key = address(number if listed else (number + 1) % 2**32)
            if i % 4 == 3:
                key = f"src {key} dst 203.0.113.9 proto tcp dport 443"
            begin = time.monotonic()
            answer = session.call("explain", key=key)
            milliseconds.append((time.monotonic() - begin) * 1e3)
            if listed and not any(origin["line"] == i * 49999 + 1 for origin in answer["origins"]):
                raise SessionError(f"explain {key} does not name its line: {answer}")
    note = f"{spread(milliseconds)} of {EXPLAIN_CALLS}; the first of a generation {first_ms:.1f}"
    return ([at_most("house.explain_ms_10m", statistics.median(milliseconds), EXPLAIN_MS, "ms", note)],
            {"first_ms": first_ms, "milliseconds": milliseconds})


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("house.reload_unchanged_ratio",), reload_unchanged),
    (("house.explain_ms_10m",), explain_10m),
)
