"""Figures mended.spread_lost and mended.hostile_endless: frames that nobody judged and nobody counted, and snapshots that keep
an enforcer busy without end. docs/develop/figures.md says how each is measured.

    mended_dataplane.py spread --build DIR    the runs of mended.spread_lost as JSON; in a network of its own, needs root
    mended_dataplane.py send INTERFACE        what it sends
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
import hostile
from figure import Figure, at_most
from namespaces import NoNamespace, own_network
from pace import hold
from rig import PROGRAMS, build_release, say
from session import Memory, Session, SessionError, tail

FRAMES, PPS = 200_000, 100_000
MODES = tuple((mode, lcores) for mode in ("pause", "interrupt") for lcores in (2, 3))
NEAR, FAR = "weir-out", "weir-in"
POLICY = "version: 1\nlists:\n  - {name: nobody, action: drop, entries: [203.0.113.0/24]}\n"
SETTLE_SECONDS = 20
LEAST_KINDS = 12


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SessionError(f"ip {' '.join(arguments)}: {done.stderr}")


def udp_frames(n):
    """From n addresses, so that every queue of a spread gets some."""
    head = bytes.fromhex("020000000002" "020000000001" "0800" "4500002e00010000" "4011" "0000" "c612")
    tail_bytes = bytes.fromhex("c0000201" "04000035001a0000") + bytes(18)
    return [head + number.to_bytes(2, "big") + tail_bytes for number in range(n)]


def send(interface):
    """FRAMES frames at PPS; what is late is sent at once."""
    frames = udp_frames(1024)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((interface, 0))
        began, sent = time.monotonic(), 0
        while sent < FRAMES:
            due = min(int((time.monotonic() - began) * PPS), FRAMES)
            for number in range(sent, due):
                wire.send(frames[number % len(frames)])
            if due == sent:
                hold(5e-5)
            sent = due
        print(json.dumps({"sent": sent, "seconds": time.monotonic() - began}))


def dropped_on_the_wire():
    """By the kernel, between the sender and the port: its own counter has them."""
    with open("/proc/net/dev", encoding="ascii") as file:
        rows = {line.split()[0].rstrip(":"): line.split()[1:] for line in file if ":" in line}
    return int(rows[NEAR][11]) + int(rows[FAR][3])


def run_mode(build, mode, lcores):
    """Workers of so many lcores and a spread over two queues; with three lcores one worker does nothing but hand on."""
    with Session(build) as session:
        with open(session.path("weir.yaml"), "w", encoding="utf-8") as policy:
            policy.write(POLICY)
        session.start_dataplane(f"forward: sink\nidle: {{mode: {mode}}}\nports: [{{port: 0, spread: 2}}]\n",
                                [f"net_af_packet0,iface={FAR}"], lcores, Memory(8192, 2048))
        session.start_controld(session.path("weir.yaml"))
        session.wait_enforced()
        session.wait("its ports", lambda: " info running " in session.log("dataplane"))

        def counted():
            stats = session.stats()
            return stats["packets"], stats["rx_missed"]

        before, on_the_wire = counted(), dropped_on_the_wire()
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "send", NEAR], capture_output=True, text=True, check=True)
        sent = json.loads(done.stdout)

        def missing():
            return sent["sent"] - (dropped_on_the_wire() - on_the_wire) - sum(counted()) + sum(before)

        try:
            session.wait("every frame", lambda: missing() <= 0, SETTLE_SECONDS)
        except SessionError:  # that is what is measured
            pass
        judged, missed = (now - then for now, then in zip(counted(), before))
        workers = session.call("telemetry")["targets"][0]["workers"]
        return {"mode": mode, "lcores": lcores, **sent, "judged": judged, "rx_missed": missed, "lost": abs(missing()),
                "dropped_on_the_wire": dropped_on_the_wire() - on_the_wire,
                "idle_modes": [worker["idle_mode"] for worker in workers]}


def measure_spread(build):
    own_network()
    ip("link", "add", NEAR, "type", "veth", "peer", "name", FAR)
    for name in (NEAR, FAR):
        ip("link", "set", name, "up")
    return [run_mode(build, mode, lcores) for mode, lcores in MODES]


def spread_lost(build, _folder):
    """The frames that are neither judged nor in a counter, of FRAMES at PPS through a port with `spread: 2`: the worst mode."""
    if os.geteuid() != 0:
        return [Figure("mended.spread_lost", status="skipped", note="root: a network of its own needs it", missing_here=True)], []
    build_release(build, PROGRAMS)
    say("mended: frames through a spread, in each mode of idle workers")
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "spread", "--build", build], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=900)
    if done.returncode != 0:
        raise SessionError(f"mended_dataplane.py spread ended with {done.returncode}: {tail(done.stderr, 5)}")
    runs = json.loads(done.stdout)
    note = "; ".join(f"{run['mode']}, {run['lcores']} lcores: {run['judged']} judged, {run['rx_missed']} in rx_missed, "
                     f"{run['sent'] / run['seconds'] / 1000:.0f} kpps" for run in runs)
    return [at_most("mended.spread_lost", max(run["lost"] for run in runs), 0, "frames", note)], runs


def hostile_endless(build, _folder):
    """Kinds of snapshots made by hand (tests/hostile/kinds.cpp) that a validator or enforcer takes and should not, or that cost
    more steps than their bound."""
    build_release(build, [*PROGRAMS, hostile.PROGRAM])
    say("mended: hostile snapshots made by hand")
    results = {"data plane": hostile.kinds_to_dataplane(build)}
    if os.geteuid() == 0:  # XDP needs root
        results["XDP"] = hostile.kinds_to_xdp(build)
    wrong = sorted({row["kind"] for result in results.values() for row in result["kinds"] if row["wrong"]})
    crashes = sum(result["crashes"] for result in results.values())
    steps = max((row.get("steps", 0) for result in results.values() for row in result["kinds"]), default=0)
    note = "; ".join(f"{what}: {result['sent']} kinds, {result['refused']} refused, {result['taken']} taken"
                     for what, result in results.items())
    note += f"; most steps {steps}; {crashes} crashes" + "".join(f"; {kind}" for kind in wrong)
    figure = at_most("mended.hostile_endless", len(wrong) + crashes, 0, "kinds", note)
    if min(result["sent"] for result in results.values()) < LEAST_KINDS:
        figure.status = "short"
    return [figure], results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("spread").add_argument("--build", default="build")
    commands.add_parser("send").add_argument("interface")
    options = parser.parse_args()
    if options.command == "send":
        send(options.interface)
        return 0
    try:
        print(json.dumps(measure_spread(options.build)))
    except (SessionError, NoNamespace) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
