"""Swaps and crashes under traffic whose right verdicts are known: a running XDP program is watched frame by frame.

    unshare --net python3 tests/rig/xdp/xdp_swaps.py swap|kill --build DIR [--packets N] [--kills N]

In a network namespace of its own: a veth pair, controld with an XDP target on one end, frames into the other one as fast
as the kernel makes them, and a count of what comes through behind the program (tests/xdp/traffic.h tells which frames
there are, and why a mixture of two generations would show).
    swap  reloads between two policies until so many frames were made
    kill  controld is killed at random moments of start and reload, and started again
Prints JSON: {"frames", "wrong", "lost", ...}; lost: frames that never got to the interface with the program: none, as no
more are sent than a veth holds. Any would count as wrong.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from pace import hold  # noqa: E402 (path first)
from session import Session, SessionError  # noqa: E402 (path first)

BPF_DIR = "/sys/fs/bpf"
MEMBERS, MULTIPLIER, STRANGERS = 100_000, 2654435761, 1_000_000  # as tests/xdp/traffic.h
EXCUSED_SRC, BLOCKED_DST, EVEN_SRC, ODD_DST = "198.18.0.1", "198.18.0.2", "198.18.0.3", "198.18.0.4"
POLICIES = (
    f"""version: 1
lists:
  - {{name: friends, action: pass, match: src, entries: [{EXCUSED_SRC}]}}
  - {{name: members, action: drop, match: src, file: members.txt}}
  - {{name: blocked, action: drop, match: dst, entries: [{BLOCKED_DST}]}}
  - {{name: even, action: drop, match: src, entries: [{EVEN_SRC}]}}
""",
    f"""version: 1
lists:
  - {{name: members, action: drop, match: src, file: members.txt}}
  - {{name: odd, action: drop, match: dst, entries: [{ODD_DST}]}}
""")


def address_text(number):
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def make_interfaces():
    run("ip", "link", "add", "g0", "numrxqueues", "1", "numtxqueues", "1", "type", "veth", "peer", "name", "r0",
        "numrxqueues", "1", "numtxqueues", "1")
    for end in ("g0", "r0"):
        run("ip", "link", "set", end, "up")


def received(interface="r0"):
    """Frames that it took, by its own count."""
    with open("/proc/net/dev", encoding="ascii") as file:
        for line in file:
            name, _, numbers = line.partition(":")
            if name.strip() == interface:
                return int(numbers.split()[1])
    raise SessionError(f"there is no interface {interface}")


class Traffic:
    """tests/xdp/xdp_traffic on the first processor this process may use."""

    def __init__(self, session, packets, pause_ms=0):
        processor = min(os.sched_getaffinity(0))
        self.process = subprocess.Popen(
            # Idle class: it gives way to the thread that works off what it sent, or the interface loses frames.
            ["chrt", "-i", "0", "taskset", "-c", str(processor), os.path.join(session.build, "tests/xdp/xdp_traffic"), "--packets",
             str(packets), "--pause-ms", str(pause_ms), "g0", "r0"],
            stdout=subprocess.PIPE, text=True)
        self.last = None
        self.first_line = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.last = json.loads(line)
            self.first_line.set()

    def running(self):
        return self.process.poll() is None

    def end(self):
        """Its counts, when it has ended; it is asked to."""
        if self.running():
            self.process.terminate()
        self.process.wait()
        self.reader.join()
        if self.process.returncode != 0 or self.last is None:
            raise SessionError(f"xdp_traffic ended with {self.process.returncode}")
        return self.last


class Rig:
    def __init__(self, session):
        self.session = session
        self.bpf_dir = f"{BPF_DIR}/weir-swaps-{os.getpid()}"
        self.policy = session.path("policy.yaml")
        self.even = False
        self.turn = 0
        session.at_exit(self.remove_pins)
        with open(session.path("members.txt"), "w", encoding="ascii") as file:
            file.writelines(address_text(i * MULTIPLIER % 2**32) + "\n" for i in range(MEMBERS))
        make_interfaces()
        self.next_policy()

    def remove_pins(self):
        if os.path.isdir(self.bpf_dir):
            for name in os.listdir(self.bpf_dir):
                os.unlink(os.path.join(self.bpf_dir, name))
            os.rmdir(self.bpf_dir)

    def next_policy(self):
        self.turn += 1
        with open(self.policy + ".new", "w", encoding="ascii") as file:
            file.write(POLICIES[self.turn % 2])
        os.replace(self.policy + ".new", self.policy)

    def start_controld(self):
        self.session.start_controld(self.policy, targets=False,
                                    extra=["--target", "xdp:r0", "--bpf-dir", self.bpf_dir])

    def generation(self):
        return self.session.call("status")["generation"]["number"]


def result(counts, before, **more):
    """Of the traffic's counts; before: what r0 had taken when it began."""
    lost = max(0, counts["made"] - (received() - before))
    wrongly_dropped = counts["made_to_pass"] - counts["came_of_pass"]  # also those lost before the program: none should be
    return {"frames": counts["made"], "wrong": wrongly_dropped + counts["came_of_drop"],
            "wrongly_dropped": wrongly_dropped, "wrongly_passed": counts["came_of_drop"], "lost": lost,
            "seconds": counts["seconds"], **more}


def swap(session, packets):
    rig = Rig(session)
    rig.start_controld()
    session.wait_enforced()
    before = received()
    traffic = Traffic(session, packets)
    reloads = 0
    while traffic.running():
        rig.next_policy()
        answer = session.call("reload")
        if not answer["ok"]:
            raise SessionError(f"a reload failed: {answer}")
        reloads += 1
    return result(traffic.end(), before, swaps=reloads)


def kill(session, kills, seed):
    chance = random.Random(seed)
    rig = Rig(session)
    began = time.monotonic()
    rig.start_controld()
    session.wait_enforced()
    start_seconds = time.monotonic() - began
    before = received()
    traffic = Traffic(session, 1e12, pause_ms=20)  # leaves controld some of a shared processor
    traffic.first_line.wait(20)
    session.kill("controld")
    acknowledged = 0
    for _ in range(kills):
        rig.next_policy()
        moment = chance.uniform(0, 2 * start_seconds)
        killer = threading.Timer(moment, lambda: session.controld.kill())
        process_seen = time.monotonic()
        try:
            session.controld = None
            # Not start_controld(): it waits for a socket that may never come.
            session.controld = session._start("controld", [  # pylint: disable=protected-access
                os.path.join(session.build, "control/controld"), "--config", rig.policy, "--socket",
                session.path("controld.sock"), "--state-dir", session.path("controld-state"), "--target", "xdp:r0",
                "--bpf-dir", rig.bpf_dir, "--metrics", "off"])
            killer.start()
            while session.controld.poll() is None:
                try:
                    rig.next_policy()
                    acknowledged += bool(session.call("reload")["ok"])
                except SessionError:
                    hold(0.005)
        finally:
            killer.join()
        session.controld.wait()
        if not traffic.running():
            raise SessionError(f"the traffic ended {time.monotonic() - process_seen:.1f} s after a start")
    session.controld = None
    return result(traffic.end(), before, kills=kills, reloads_acknowledged=acknowledged,
                  killed_within_s=round(2 * start_seconds, 3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("swap", "kill"))
    parser.add_argument("--build", required=True, metavar="DIR")
    parser.add_argument("--packets", type=float, default=1e8, help="of swap (1e8)")
    parser.add_argument("--kills", type=int, default=200, help="of kill (200)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of kill (1)")
    arguments = parser.parse_args()
    with Session(arguments.build) as session:
        try:
            done = (swap(session, arguments.packets) if arguments.what == "swap"
                    else kill(session, arguments.kills, arguments.seed))
        except SessionError as error:
            print(f"xdp_swaps: {error}", file=sys.stderr)
            return 2
    print(json.dumps(done))
    return 0 if done["wrong"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
