"""A shadow judges a capture beside the policy that runs: its counts on both planes, those of a replay of both policies, and the cost of
judging. Standard library only.
"""

import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import threading
import time
from concurrent.futures import ProcessPoolExecutor

from capture import read_capture, sort_out, write_capture
from namespaces import mount_bpf, own_mounts, own_network
from pace import hold
from session import ROOT, Memory, Session, SessionError
from until import until
from xdp_swaps import received

LOOP = "forward: sink\nports: [{port: 0}]"
HEADER_BYTES = 24  # of a pcap file
NEAR, FAR = "out0", "in0"
TARGET = f"targets: [{{xdp: {{interfaces: [{FAR}]}}}}]\n"
SHORTEST, LONGEST = 14, 1514  # bytes of frames that the interfaces take
AT_ONCE = 32  # fewer frames than a veth's ring holds


def ask(session, *arguments, codes=(0,)):
    """The answer of `controlctl shadow ... --json`."""
    code, out, err = session.controlctl("shadow", *arguments, "--json")
    if code not in codes:
        raise SessionError(f"controlctl shadow {' '.join(arguments)} ended with {code}: {out}{err}")
    return json.loads(out)


def plain_capture(folder, pcap, most=None):
    """The first frames as one pcap file, whatever the capture's format."""
    capture, path = read_capture(pcap), os.path.join(folder, "frames.pcap")
    write_capture(path, capture, range(len(capture.frames[:most])))
    return path


def frames_that_fit(folder, pcap):
    """The capture without frames that a veth does not take."""
    capture, path = read_capture(pcap), os.path.join(folder, "fits.pcap")
    write_capture(path, capture, [number for number, frame in enumerate(capture.frames) if SHORTEST <= len(frame) <= LONGEST])
    return path


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
    """The counts that a shadow should have, frame by frame."""
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


def shadowed_difference(plane, build, running, candidate, pcap, one_in=1):
    """The answer of a shadow on a plane ("dataplane", "xdp") after each frame of the capture. NoNamespace: this machine has no XDP."""
    if plane == "dataplane":
        return shadowed_on_dataplane(build, running, candidate, pcap, one_in)
    # In a process of its own: the network and the mounts are its own, too.
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(shadowed_on_xdp, build, running, candidate, pcap, one_in).result()


def shadowed_on_dataplane(build, running, candidate, pcap, one_in):
    """The frames come through a pipe. They are written after the shadow has begun."""
    capture, begun = read_capture(pcap), threading.Event()
    with Session(build) as session:
        os.mkfifo(session.path("in.pcap"))

        def feed():
            with open(session.path("in.pcap"), "wb") as sink, open(pcap, "rb") as source:
                sink.write(source.read(HEADER_BYTES))
                sink.flush()
                begun.wait()
                sink.write(source.read())

        threading.Thread(target=feed, daemon=True).start()
        session.start_dataplane(LOOP, ["net_pcap0,rx_pcap=in.pcap"], 1, Memory(8192, capture.longest()))
        session.start_controld(running)
        session.wait_enforced()
        ask(session, candidate, "--one-in", str(one_in))
        begun.set()
        session.wait("every frame to be judged", lambda: session.stats()["packets"] >= len(capture.frames))
        return ask(session)


def with_target(path):
    """The same policy for XDP, in the same folder as its feeds."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    changed = os.path.join(os.path.dirname(path), "xdp-" + os.path.basename(path))
    with open(changed, "w", encoding="utf-8") as file:
        file.write(text.replace("version: 1\n", "version: 1\n" + TARGET, 1))
    return changed


def make_pair():
    one = ["numrxqueues", "1", "numtxqueues", "1"]
    for command in (["add", NEAR, *one, "type", "veth", "peer", "name", FAR, *one], ["set", NEAR, "up"], ["set", FAR, "up"]):
        subprocess.run(["ip", "link", *command], check=True, capture_output=True)


def send_all(frames):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as near:
        near.bind((NEAR, 0))
        before = received(FAR)
        for number, frame in enumerate(frames):
            near.send(frame)
            if number % AT_ONCE == AT_ONCE - 1:
                until("frames to arrive", lambda sent=number + 1: received(FAR) - before >= sent, turn=0.001)


def shadowed_on_xdp(build, running, candidate, pcap, one_in):
    """The frames come through a veth pair, in namespaces of this process."""
    own_network()
    own_mounts()
    make_pair()
    frames = read_capture(pcap).frames
    with Session(build) as session:
        os.makedirs(session.path("bpf"))
        mount_bpf(session.path("bpf"))
        try:
            session.start_controld(with_target(running), targets=False, extra=["--bpf-dir", session.path("bpf")])
            session.wait_enforced()
            before = session.stats()["packets"]
            ask(session, with_target(candidate), "--one-in", str(one_in))
            send_all(frames)
            session.wait("every frame to be judged", lambda: session.stats()["packets"] - before >= len(frames))
            return ask(session)
        finally:
            session.stop("controld")
            subprocess.run(["umount", "--lazy", session.path("bpf")], check=False)


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
