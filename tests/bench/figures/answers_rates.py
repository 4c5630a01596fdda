"""Figures of false positives: whether what is measured of real lists is inside of what is predicted, on both planes, and how soon an
attack with a known secret is told.

    answers_rates.py BUILD FOLDER      the rates of XDP, in a network of its own; prints JSON
"""

import json
import os
import socket
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../rig"))
import rooms  # noqa: E402,F401
from all_lists import all_lists
from capture import read_capture, write_capture
from figure import at_most
from namespaces import own_mounts, mount_bpf, own_network
from rig import PlacedSession, Skip, say, test_data
from session import Memory, SessionError
from strangers import make_strangers, outside

ALARM_S = 10
STRANGERS = 20000   # of each shape
ENOUGH_KEYS = 5000  # of each shape, where there are so many
PATIENCE_S = 90


def status(session):
    return session.call("status")


def start_looping(session, path):
    capture = read_capture(path)
    write_capture(session.path("in.pcap"), capture)
    session.start_dataplane("forward: hairpin\nports: [{port: 0}]", ["net_pcap0,rx_pcap=in.pcap,infinite_rx=1"], 1,
                            Memory(len(capture.frames) + 4096, capture.longest()))
    session.wait_enforced()


def settle(session, told):
    """The rates, when most keys of the strangers that there are have been sampled, or after a while."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = status(session)
        keys = {rate["shape"]: rate["keys"] for rate in answer["false_positives"]}
        if all(keys.get(shape, 0) >= min(ENOUGH_KEYS, counts["keys"] // 2) for shape, counts in told.items()):
            return answer
        if time.monotonic() > deadline:
            return answer
        time.sleep(1)


def summary(rates):
    """How many there are, what their 95 % intervals hold, and the keys of the shape that has fewest."""
    held = sum(rate["low"] <= rate["predicted"] <= rate["high"] for rate in rates if rate["keys"])
    return f"{held} of {len(rates)} intervals of 95 % hold the prediction, {min(rate['keys'] for rate in rates)} keys at least"


def of_dataplane(build, folder):
    """(strangers' rates, captured traffic's rates, seconds until the alarm, rates after the rebuild)"""
    with PlacedSession(build) as session:
        with open(session.path("policy.yaml"), "w", encoding="utf-8") as file:
            file.write(all_lists(folder))
        session.start_controld(session.path("policy.yaml"))
        base = os.path.join(session.state_path("controld"), "snapshot.weir")
        session.wait("the snapshot's file", lambda: os.path.exists(base))
        say("answers: strangers to all lists")
        told = make_strangers(build, base, session.path("strangers.pcap"), STRANGERS)
        start_looping(session, session.path("strangers.pcap"))
        strangers = settle(session, told)
        session.stop("dataplane")
        say("answers: captured traffic and all lists")
        start_looping(session, test_data("pcaps/mix_shared.pcap.xz", folder))
        time.sleep(20)
        captured = status(session)
        session.stop("dataplane")
        say("answers: the attacker knows the secret")
        make_strangers(build, base, session.path("attack.pcap"), 1000, "--let-through", seed=2)
        start_looping(session, session.path("attack.pcap"))
        began = time.monotonic()
        session.wait("the alarm", lambda: outside(status(session)), seconds=6 * ALARM_S)
        alarm_s = time.monotonic() - began
        session.call("rebuild")
        time.sleep(10)
        after = status(session)
    return strangers, captured, alarm_s, after


def of_xdp(build, folder):
    """The strangers' rates on a veth pair. In a network of this process's own."""
    own_network()
    own_mounts()
    with PlacedSession(build) as session:
        os.makedirs(session.path("bpf"))
        mount_bpf(session.path("bpf"))
        for command in ("link add out0 numrxqueues 1 numtxqueues 1 type veth peer name in0 numrxqueues 1 numtxqueues 1",
                        "link set out0 up", "link set in0 up"):
            subprocess.run(["ip", *command.split()], check=True)
        with open(session.path("policy.yaml"), "w", encoding="utf-8") as file:
            file.write(all_lists(folder) + "targets: [{xdp: {interfaces: [in0]}}]\n")
        session.start_controld(session.path("policy.yaml"), targets=False, extra=["--bpf-dir", session.path("bpf")])
        session.wait("XDP to enforce", lambda: all(target["acknowledged"] for target in status(session)["targets"]))
        base = os.path.join(session.state_path("controld"), "snapshot.weir")
        told = make_strangers(build, base, session.path("strangers.pcap"), STRANGERS, "--xdp")
        frames = [bytes(frame) for frame in read_capture(session.path("strangers.pcap")).frames]
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind(("out0", 0))
            for _ in range(6):
                for frame in frames:
                    wire.send(frame)
            time.sleep(2)
        answer = status(session)
    missing = set(told) - {rate["shape"] for rate in answer["false_positives"]}
    if missing:
        raise SessionError(f"no rates of {', '.join(sorted(missing))}")
    return answer


def rates(build, folder):
    strangers, captured, alarm_s, after = of_dataplane(build, folder)
    wrong = outside(strangers) + outside(captured) + outside(after)
    note = f"data plane: {summary(strangers['false_positives'])}"
    raw = {"strangers": strangers["false_positives"], "captured": captured["false_positives"], "alarm_s": alarm_s,
           "after": after["false_positives"]}
    if os.geteuid() == 0:
        say("answers: strangers to all lists, by XDP")
        done = subprocess.run([sys.executable, os.path.abspath(__file__), build, folder], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SessionError(f"the rates of XDP: {done.stderr}")
        xdp = json.loads(done.stdout.splitlines()[-1])
        wrong += outside(xdp)
        raw["xdp"] = xdp["false_positives"]
        note += f"; XDP: {summary(xdp['false_positives'])}"
    else:
        note += "; XDP: not measured, which takes root"
    return ([at_most("answers.fpr_outside", len(wrong), 0, "shapes", note + "".join(f"; {one}" for one in wrong)),
             at_most("answers.alarm_s", alarm_s, ALARM_S, "s", f"an attack on {len(strangers['false_positives'])} shapes at once")],
            raw)


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("answers.fpr_outside", "answers.alarm_s"), rates),
)


if __name__ == "__main__":
    try:
        print(json.dumps(of_xdp(sys.argv[1], sys.argv[2])))
    except Skip as skip:
        sys.exit(str(skip))
