"""A shadow beside the policy that runs: what it counts against a replay of both, what judging costs, and a promotion under
numbered traffic. Standard library only.
"""

import json
import os
import statistics
import subprocess
import threading
import time

from capture import Capture, read_capture, sort_out, write_capture
from numbered import Book, World, mixture
from order import LONGEST, ORDER, Pipes, numbered_frames, read, wait_until_silent, write_policy
from pace import hold
from session import ROOT, Memory, Session, SessionError

PACE_FRAMES, PACE_SECONDS = 512, 0.002
JUDGED = 20_000  # packets that are waited for, before and after a promotion
LOOP = "forward: sink\nports: [{port: 0}]"


def ask(session, *arguments, codes=(0,)):
    """What `controlctl shadow ... --json` answers."""
    code, out, err = session.controlctl("shadow", *arguments, "--json")
    if code not in codes:
        raise SessionError(f"controlctl shadow {' '.join(arguments)} ended with {code}: {out}{err}")
    return json.loads(out)


def verdicts(build, folder, config, pcap, capture):
    """Of a replay: whether each frame drops."""
    paths = [os.path.join(folder, os.path.basename(config) + end) for end in (".passed", ".dropped", ".json")]
    done = subprocess.run([os.path.join(ROOT, "scripts/replay"), "--build", build, "--once", "--config", config, "--pcap", pcap,
                           "--passed", paths[0], "--dropped", paths[1], "--json", paths[2]], capture_output=True, text=True)
    if done.returncode != 0:
        raise SessionError(f"replay of {config} failed:\n{done.stdout}{done.stderr}")
    _, dropped = sort_out(capture.frames, read_capture(paths[0]).frames, read_capture(paths[1]).frames)
    drops = [False] * len(capture.frames)
    for number in dropped:
        drops[number] = True
    return drops


def replayed_difference(build, folder, running, candidate, pcap):
    """Frame by frame: what a shadow should count."""
    capture = read_capture(pcap)
    before = verdicts(build, folder, running, pcap, capture)
    after = verdicts(build, folder, candidate, pcap, capture)
    sums = {"packets": len(before), "newly_dropped": 0, "newly_dropped_bytes": 0, "newly_passed": 0, "newly_passed_bytes": 0}
    for frame, was, is_now in zip(capture.frames, before, after):
        if was != is_now:
            kind = "newly_passed" if was else "newly_dropped"
            sums[kind] += 1
            sums[kind + "_bytes"] += len(frame)
    return sums


def shadowed_difference(build, parent, running, candidate, pcap, one_in=1):
    """The capture's frames, each once, through a data plane that judges by both: (what the shadow counted, its whole answer,
    what the data plane dropped). The frames come through a pipe, which opens when the shadow has begun."""
    capture = read_capture(pcap)
    with Session(build, parent) as session:
        os.mkfifo(session.path("in.pcap"))
        opened = []

        def feed():
            with open(session.path("in.pcap"), "wb", buffering=0) as sink:
                opened.append(sink)
                sink.write(read_header(pcap))
                begun.wait()
                whole = memoryview(open(pcap, "rb").read())[HEADER_BYTES:]
                while whole:
                    whole = whole[sink.write(whole[:1 << 16]):]

        begun = threading.Event()
        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        session.start_dataplane(LOOP, ["net_pcap0,rx_pcap=in.pcap"], 1, Memory(8192, capture.longest()))
        session.start_controld(running)
        session.wait_enforced()
        ask(session, candidate, "--one-in", str(one_in))
        begun.set()
        session.wait("every frame to be judged", lambda: session.stats()["packets"] >= len(capture.frames))
        # Frames wait for company in the data plane until none comes any more.
        told = ask(session)
        dropped = session.stats()["dropped"]
        return told, dropped


HEADER_BYTES = 24  # of a pcap file


def read_header(pcap):
    with open(pcap, "rb") as file:
        return file.read(HEADER_BYTES)


def plain_capture(folder, pcap, most=None):
    """The frames as one pcap file, whatever the capture's format."""
    capture = read_capture(pcap)
    if most is not None:
        chosen = Capture(capture.nanoseconds)
        chosen.frames, chosen.headers = capture.frames[:most], capture.headers[:most]
        capture = chosen
    path = os.path.join(folder, "frames.pcap")
    write_capture(path, capture)
    return path


def paced(over, frames):
    """At a pace that leaves others time, until it is over."""
    sent = 0
    while not over.is_set():
        sent += 1
        if sent % PACE_FRAMES == 0:
            hold(PACE_SECONDS)
        yield next(frames)


def promote_under_traffic(build, parent, seed):
    """Numbered frames cross a data plane while the candidate begins, judges, is joined by an added entry, and is promoted: what became
    of the frames, and what was answered on the way."""
    world = World(seed, Pipes.without)
    book = Book(world)
    with Session(build, parent) as session:
        paths = world.write(session.folder)
        order = mixture(world, ORDER, seed)
        lane, over = Pipes(session, book), threading.Event()
        session.start_dataplane(lane.config, lane.vdevs, 1, Memory(8192, LONGEST))
        text = read(paths[0]) + "  - {name: bans, action: drop, dynamic: true}\n"
        write_policy(session, text)
        with open(paths[1], "a", encoding="ascii") as file:
            file.write("  - {name: bans, action: drop, dynamic: true}\n")
        session.start_controld(session.path("weir.yaml"))
        session.wait_enforced()
        sender = threading.Thread(target=lambda: lane.send(paced(over, numbered_frames(book, order, 1 << 40))), daemon=True)
        sender.start()
        begun = ask(session, paths[1])
        session.wait("judged packets", lambda: ask(session)["packets"] > JUDGED)
        code, out, err = session.controlctl("add", "203.0.113.77", "--list", "bans")  # no frame has it
        if code != 0:
            raise SessionError(f"add ended with {code}: {out}{err}")
        told = ask(session)
        promoted = ask(session, "--promote")
        session.wait_enforced()
        status, seen = session.call("status"), session.stats()["packets"]
        session.wait("packets after the promotion", lambda: session.stats()["packets"] > seen + JUDGED)
        over.set()
        sender.join()
        wait_until_silent(book)
        book.close()
        explained = session.call("explain", key="203.0.113.77")
        last = ask(session)
        history = session.call("history")["generations"]
        return {"faults": book.faults, "told_faults": book.told, "begun": begun, "told": told, "promoted": promoted,
                "status": status, "explained": explained, "last": last, "history": history, "frames": sum(book.sent)}


def loop_rates(build, parent, running, candidate, capture, seconds, turns):
    """A capture that loops through a worker, with a shadow of all packets and without, in turns: (rates with, rates without in
    packets a second, cycles a packet as the shadow tells them)."""
    with Session(build, parent) as session:
        write_capture(session.path("in0.pcap"), capture)
        session.start_dataplane(LOOP, ["net_pcap0,rx_pcap=in0.pcap,infinite_rx=1"], 1,
                                Memory(len(capture.frames) + 2048, capture.longest()))
        session.start_controld(running)
        session.wait_enforced()

        def rate():
            before, begin = session.stats(), time.monotonic()
            hold(seconds)
            after, end = session.stats(), time.monotonic()
            return (after["packets"] - before["packets"]) / (end - begin)

        with_shadow, without, cycles = [], [], []
        for _ in range(turns):
            without.append(rate())
            ask(session, candidate)
            with_shadow.append(rate())
            told = ask(session)
            cycles.append(told["targets"][0]["cycles"])
            ask(session, "--discard")
        return with_shadow, without, cycles


def median_loss(with_shadow, without):
    """Share of the rate that a worker loses, by pairs."""
    return statistics.median(1 - on / off for on, off in zip(with_shadow, without))
