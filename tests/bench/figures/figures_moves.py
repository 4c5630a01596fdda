"""Figures of lists that change: entries that are added while ten million stand, a start from disk, a large feed from its text
to the data plane. docs/develop/figures.md says how each is measured."""

import os
import random
import statistics
import time

from figure import at_most
from figures_control import write, write_hosts
from rig import PlacedSession, say, spread
from session import SessionError

CONFIG = "forward: sink\nports: [{port: 0}]"
BASE_ENTRIES, ADDS, BULK = 10_000_000, 300, 100_000
ADD_MEDIAN_MS, ADD_P99_MS, BULK_S, BYTES_PER_ENTRY = 5, 20, 1, 100
FIREHOL_HOSTS, FIREHOL_PREFIXES, FIREHOL_S = 1_770_000, 56_000, 1.5
RESTART_ENTRIES, RESTARTS, RESTART_MS = 1_000_000, 5, 150


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def ask(session, command, **fields):
    answer = session.call(command, **fields)
    if not answer.get("ok"):
        raise SessionError(f"{command} failed: {answer}")
    return answer


def start(session, policy):
    write(session.path("policy.yaml"), policy)
    session.start_dataplane("snapshot_memory: 4GiB\n" + CONFIG, ["net_null0"], 1)
    session.start_controld(session.path("policy.yaml"))
    session.wait_enforced()


def adds(build, folder):
    """From the request to the answer over controld's socket: in the journal, enforced and on disk at a data plane that polls a port."""
    feed = os.path.join(folder, "hosts.txt")
    say(f"moves: {ADDS} adds to {BASE_ENTRIES} entries")
    write_hosts(feed, BASE_ENTRIES)
    milliseconds = []
    with PlacedSession(build) as session:
        start(session, "version: 1\nfilter: {memory: 4GiB}\nlists:\n"
                       f"  - {{name: hosts, action: drop, file: {feed}}}\n  - {{name: bans, action: drop, dynamic: true}}\n")
        peak_bytes = session.call("status")["memory"]["peak_bytes"]
        for i in range(ADDS):
            begin = time.monotonic()
            ask(session, "add", name="bans", entries=[f"2001:db8::{i:x}" if i % 3 == 0 else f"198.18.{i % 256}.{i // 256}"])
            milliseconds.append((time.monotonic() - begin) * 1e3)
        begin = time.monotonic()
        ask(session, "add", name="bans", entries=[f"100.{64 + i // 65536}.{i // 256 % 256}.{i % 256}" for i in range(BULK)])
        bulk_s = time.monotonic() - begin
    return [at_most("moves.add_ms_median", statistics.median(milliseconds), ADD_MEDIAN_MS, "ms", spread(milliseconds)),
            at_most("moves.add_ms_p99", percentile(milliseconds, 0.99), ADD_P99_MS, "ms", f"of {ADDS}"),
            at_most("moves.bulk_add_s", bulk_s, BULK_S, "s", f"{BULK} entries in one request"),
            at_most("moves.bytes_per_entry", peak_bytes / BASE_ENTRIES, BYTES_PER_ENTRY, "B",
                    f"controld's peak, {peak_bytes / 2**20:.0f} MiB, the first compilation included")
            ], {"milliseconds": milliseconds, "bulk_s": bulk_s, "peak_bytes": peak_bytes}


def hosts_text(hosts):
    return "".join(f"{h >> 24}.{h >> 16 & 255}.{h >> 8 & 255}.{h & 255}\n" for h in hosts)


def firehol(build, folder):
    """As many addresses and networks as all FireHOL lists: from the text to the acknowledgement."""
    say(f"moves: {FIREHOL_HOSTS} addresses and {FIREHOL_PREFIXES} prefixes")
    draw = random.Random(2)
    feed = os.path.join(folder, "firehol.netset")
    hosts = draw.sample(range(1 << 24, 223 << 24), FIREHOL_HOSTS)
    prefixes = (f"{draw.randrange(1, 223)}.{draw.randrange(256)}.{draw.randrange(256)}.0/{draw.randrange(16, 25)}\n"
                for _ in range(FIREHOL_PREFIXES))
    seconds = []
    with PlacedSession(build) as session:
        write(feed, hosts_text(hosts) + "".join(prefixes))
        policy = f"version: 1\nlists:\n  - {{name: all, action: drop, match: src, file: {feed}}}\n"
        start(session, policy)
        for i in range(5):  # what its entries are compared with has changed: read and compiled as for the first time
            write(session.path("policy.yaml"), policy.replace("match: src", f"match: {'src' if i % 2 else 'dst'}"))
            seconds.append(ask(session, "reload")["total_ms"] / 1e3)
    return [at_most("moves.firehol_s", statistics.median(seconds), FIREHOL_S, "s", spread(seconds))], seconds


def restart(build, folder):
    """kill -9 of the data plane that enforces a base of a million entries and an overlay, started again without controld: from the start of
    the process to the line that says what it enforces."""
    say("moves: restarts from disk")
    feed = os.path.join(folder, "million.txt")
    write_hosts(feed, RESTART_ENTRIES)
    milliseconds = []
    with PlacedSession(build) as session:
        start(session, f"version: 1\nlists:\n  - {{name: hosts, action: drop, file: {feed}}}\n"
                       "  - {name: bans, action: drop, dynamic: true}\n")
        ask(session, "add", name="bans", entries=["198.18.0.1"])
        number = session.call("status")["generation"]["number"]
        session.kill("controld")
        for _ in range(RESTARTS):
            session.kill("dataplane")
            said = session.log("dataplane").count("enforcing the saved generation")
            begin = time.monotonic()
            session.start_dataplane("snapshot_memory: 4GiB\n" + CONFIG, ["net_null0"], 1, extra=())
            session.wait("the saved generation", lambda: session.log("dataplane").count("enforcing the saved generation") > said)
            milliseconds.append((time.monotonic() - begin) * 1e3)
            line = [line for line in session.log("dataplane").splitlines() if "enforcing the saved generation" in line][-1]
            if f" generation={number} " not in line:
                raise SessionError(f"the data plane does not enforce generation {number}: {line}")
    return [at_most("moves.restart_ms", statistics.median(milliseconds), RESTART_MS, "ms", spread(milliseconds))], milliseconds


MEASUREMENTS = (
    (("moves.add_ms_median", "moves.add_ms_p99", "moves.bulk_add_s", "moves.bytes_per_entry"), adds),
    (("moves.firehol_s",), firehol),
    (("moves.restart_ms",), restart),
)
