"""What a shadow on XDP counts over a capture, each frame once, through a veth pair.

    python3 tests/rig/xdp/shadows_xdp.py --build DIR --running FILE --candidate FILE --pcap FILE [--one-in N]

In namespaces of its own, so a process of its own. Prints the answer of `controlctl shadow --json`. Exit code 77: it cannot be
had here, with the reason. Standard library only.
"""

import argparse
import json
import os
import socket
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from capture import Capture, read_capture, write_capture  # noqa: E402 (path first)
from namespaces import NoNamespace, mount_bpf, own_mounts, own_network  # noqa: E402
from rig import Skip  # noqa: E402
from session import Session, SessionError  # noqa: E402
from shadows import ask  # noqa: E402
from until import until  # noqa: E402
from xdp_swaps import received  # noqa: E402

NEAR, FAR = "out0", "in0"
TARGET = f"targets: [{{xdp: {{interfaces: [{FAR}]}}}}]\n"
SHORTEST, LONGEST = 14, 1514  # bytes of frames that the interfaces take
AT_ONCE = 32  # fewer than a veth's ring holds


def frames_that_fit(folder, pcap):
    """The capture without frames that a veth does not take."""
    capture = read_capture(pcap)
    kept = Capture(capture.nanoseconds)
    for frame, header in zip(capture.frames, capture.headers):
        if SHORTEST <= len(frame) <= LONGEST:
            kept.frames.append(frame)
            kept.headers.append(header)
    path = os.path.join(folder, "fits.pcap")
    write_capture(path, kept)
    return path


def with_target(path, target=TARGET):
    """The same policy for XDP on the pair's end, beside it: where its feeds lie."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    changed = os.path.join(os.path.dirname(path), "xdp-" + os.path.basename(path))
    with open(changed, "w", encoding="utf-8") as file:
        file.write(text.replace("version: 1\n", "version: 1\n" + target, 1))
    return changed


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


def make_pair():
    one = ["numrxqueues", "1", "numtxqueues", "1"]
    run("ip", "link", "add", NEAR, *one, "type", "veth", "peer", "name", FAR, *one)
    for name in (NEAR, FAR):
        run("ip", "link", "set", name, "up")


def send_all(frames):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as near:
        near.bind((NEAR, 0))
        before = received(FAR)
        for number, frame in enumerate(frames):
            near.send(frame)
            if number % AT_ONCE == AT_ONCE - 1:
                until("frames to arrive", lambda sent=number + 1: received(FAR) - before >= sent, turn=0.001)


def xdp_difference(build, running, candidate, pcap, one_in):
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


def xdp_shadowed_difference(build, running, candidate, pcap, one_in=1):
    """The same in a process of its own. Skip: it cannot be had here."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--build", build, "--running", running, "--candidate", candidate,
                           "--pcap", pcap, "--one-in", str(one_in)], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        raise Skip(done.stderr.strip())
    if done.returncode != 0:
        raise SessionError(f"a shadow on XDP ended with {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "running", "candidate", "pcap"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--one-in", type=int, default=1)
    arguments = parser.parse_args()
    try:
        own_network()
        own_mounts()
        make_pair()
        told = xdp_difference(arguments.build, arguments.running, arguments.candidate, arguments.pcap, arguments.one_in)
    except NoNamespace as reason:
        print(reason, file=sys.stderr)
        sys.exit(77)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
