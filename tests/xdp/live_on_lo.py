#!/usr/bin/env python3
"""The filter on `lo`: attached by controld, and beside another program by libxdp's dispatcher. Run as root in a guest.

    tests/xdp/live_on_lo.py BUILD
Prints a JSON list of what is wrong. lo has no driver's hook, so all of it is generic XDP.
"""

import glob
import json
import os
import socket
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rig", "world"))
from until import until  # noqa: E402 (path first)

BPF_DIR = "/sys/fs/bpf"
LISTED, OTHER, HERE = "198.18.0.1", "198.18.0.2", "127.0.0.1"
POLICY = f"""version: 1
lists:
  - {{name: bad, action: drop, match: src, entries: [{LISTED}]}}
"""
START_SECONDS = 120
ARRIVE_SECONDS = 60
problems = []


def check(holds, what):
    if not holds:
        problems.append(what)
    return holds


def run(*command, errors=subprocess.STDOUT):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, check=False)


def run_for_json(*command):
    """On a slow machine it is said besides that controld is waited for."""
    return run(*command, errors=subprocess.DEVNULL)


def is_dropped(source):
    return first_of(source, OTHER) == OTHER


def arrives(source):
    return first_of(source) == source


def first_of(*sources):
    """Each address sends a datagram, one after the other: which comes in first by lo. One processor keeps their order."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.bind((HERE, 0))
        there.settimeout(ARRIVE_SECONDS)
        processors = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(processors)})
        try:
            for source in sources:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
                    here.bind((source, 0))
                    here.sendto(b"x", there.getsockname())
            return there.recvfrom(1)[1][0]
        except TimeoutError:
            return None
        finally:
            os.sched_setaffinity(0, processors)


class Controld:
    def __init__(self, build, folder, target):
        self.socket = os.path.join(folder, "controld.sock")
        self.ctl = [os.path.join(build, "control/controlctl"), "--socket", self.socket]
        policy = os.path.join(folder, "policy.yaml")
        with open(policy, "w", encoding="ascii") as file:
            file.write(POLICY)
        self.process = subprocess.Popen(
            [os.path.join(build, "control/controld"), "--config", policy, "--socket", self.socket, "--state-dir",
             os.path.join(folder, "state"), "--target", target, "--bpf-dir", BPF_DIR, "--metrics", "off"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_enforced(self):
        def is_enforced():
            done = run_for_json(*self.ctl, "status", "--json")
            if done.returncode != 0:
                return False
            target, = json.loads(done.stdout)["targets"]
            return target["acknowledged"] and all(interface["attached"] for interface in target["interfaces"])

        return until("a policy", is_enforced, START_SECONDS, error=None, turn=0.2) or check(
            False, f"controld enforces nothing after {START_SECONDS} s" + self.told())

    def told(self):
        """What it says of itself, for a problem's text."""
        return "".join(f"\n{run(*self.ctl, *command).stdout}" for command in (("status", "--json"), ("stats", "--json")))

    def matched(self):
        """As it is now: an enforcer that answers late is told of as it was."""
        stats = {}

        def is_fresh():
            stats.update(json.loads(run_for_json(*self.ctl, "stats", "--json").stdout))
            return all(target["fresh"] for target in stats["targets"])

        until("fresh counters", is_fresh, START_SECONDS, error=None, turn=0.2)
        return stats["lists"]["bad"]["matched"]

    def close(self):
        self.process.terminate()
        self.process.wait()


def attached_by_controld(build, folder):
    controld = Controld(build, folder, "xdp:lo")
    try:
        if not controld.wait_enforced():
            return
        check(arrives(OTHER) and is_dropped(LISTED), "attached: wrong verdicts" + controld.told())
        check(controld.matched() == 1, f"attached: {controld.matched()} packets counted for 1")
    finally:
        controld.close()
    check(is_dropped(LISTED), "enforcement ended with controld")
    done = run(os.path.join(build, "control/controlctl"), "--socket", controld.socket, "detach", "--bpf-dir", BPF_DIR)
    check(done.returncode == 0 and arrives(LISTED), f"detach ended with {done.returncode}: {done.stdout}")


def beside_another(build, folder):
    """Another program, which passes everything here, runs first; then weir's, with the maps that controld keeps."""
    controld = Controld(build, folder, "xdp:")
    try:
        if not controld.wait_enforced():
            return
        other, = glob.glob("/usr/lib/*/bpf/xdpfilt_alw_tcp.o")
        for command in (("xdp-loader", "load", "--mode", "skb", "lo", other),
                        ("xdp-loader", "load", "--mode", "skb", "--pin-path", BPF_DIR, "lo",
                         os.path.join(build, "bpf/program/weir.bpf.o"))):
            done = run(*command)
            if not check(done.returncode == 0, f"{' '.join(command)}: {done.stdout}"):
                return
        shown = run("xdp-loader", "status", "lo").stdout
        check("xdpfilt_alw_tcp" in shown and " weir " in shown, f"the dispatcher does not have both: {shown}")
        check(arrives(OTHER) and is_dropped(LISTED), "by the dispatcher: wrong verdicts")
        check(controld.matched() == 1, f"by the dispatcher: {controld.matched()} packets counted for 1")
        check(run("xdp-loader", "unload", "lo", "--all").returncode == 0 and arrives(LISTED), "unload: still enforced")
    finally:
        controld.close()


def main():
    build, = sys.argv[1:]
    for command in (("ip", "link", "set", "lo", "up"), ("ip", "address", "add", f"{LISTED}/32", "dev", "lo"),
                    ("ip", "address", "add", f"{OTHER}/32", "dev", "lo")):
        done = run(*command)
        check(done.returncode == 0, f"{' '.join(command)}: {done.stdout}")
    for test in (attached_by_controld, beside_another):
        with tempfile.TemporaryDirectory() as folder:
            test(build, folder)
    print(json.dumps(problems))


main()
