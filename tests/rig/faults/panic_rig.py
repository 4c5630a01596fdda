"""controld, a data plane and XDP whose packets tell how they are judged, and orders to them: how long until the packets of each
plane meet another verdict? Needs root, a network and a mount table of its own. Standard library only."""

import json
import os
import subprocess
import time

from capture import read_capture, write_capture
from loop_disk import Disk
from namespaces import mount_bpf
from panic_packets import (BLOCKED_SOURCE, INTERFACE, PATIENCE_SECONDS, DataplanePackets, DataplaneStatus, XdpPackets,
                           make_interfaces)
from samples import make_samples
from session import Memory, SessionError
from until import until

LOOK_SECONDS = 0.0005              # between two looks at the packets


def controlctl(session, *arguments):
    """A controlctl that runs."""
    begin = time.monotonic()
    process = subprocess.Popen([os.path.join(session.build, "control/controlctl"), *arguments, "--json", "--socket",
                                session.path("controld.sock")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.begin = begin
    return process


def answer_of(process):
    """(exit code, the answer, standard error) of a controlctl."""
    out, err = process.communicate(timeout=2 * PATIENCE_SECONDS)
    try:
        return process.returncode, json.loads(out), err
    except ValueError:
        raise SessionError(f"controlctl ended with {process.returncode}: {out}{err}") from None


class Rig:
    """A data plane that loops a capture, XDP on an interface, and a controld for both. entries: of the large list. times: pairs
    of orders in each situation."""

    def __init__(self, session, entries, times):
        self.session, self.entries, self.times = session, entries, times
        self.policy, self.bpf_dir = session.path("weir.yaml"), session.path("bpf")
        self.is_large = False
        self.turn = 0
        self.disk = Disk(session)
        os.mkdir(self.bpf_dir)
        mount_bpf(self.bpf_dir)
        session.at_exit(lambda: subprocess.run(["umount", "--lazy", self.bpf_dir], check=False))
        make_interfaces()
        make_samples(session.folder, flows=1000, frames=5000)
        capture = read_capture(session.path("capture.pcap"))
        write_capture(session.path("in0.pcap"), capture)
        with open(self.policy, encoding="utf-8") as file:
            self.base = file.read()
        with open(session.path("large.txt"), "w", encoding="ascii") as file:
            for begin in range(0, entries, 1 << 20):
                file.write("".join(f"{20 + (i >> 16) % 70}.{i >> 8 & 255}.{i & 255}.{i >> 22 & 255}\n"
                                   for i in range(begin, min(begin + (1 << 20), entries))))
        self.memory = Memory(len(capture.frames) + 2048, capture.longest())
        self.start_dataplane()
        self.use("small")
        self.start_controld()
        self.packets = {"data plane": DataplanePackets(session.path("dataplane.sock")), "XDP": XdpPackets()}
        self.status = DataplaneStatus(session.path("dataplane.sock"))
        self.wait_until_judged(False)

    # Programs and policies.

    def start_dataplane(self):
        self.session.start_dataplane("forward: hairpin\nports: [{port: 0, queues: 1}]",
                                     ["net_pcap0,rx_pcap=in0.pcap,infinite_rx=1"], 1, self.memory)

    def launch_controld(self):
        """Does not wait for it."""
        session = self.session
        session.controld = session._start("controld", [  # pylint: disable=protected-access
            os.path.join(session.build, "control/controld"), "--config", self.policy, "--socket", session.path("controld.sock"),
            "--state-dir", session.path("controld-state"), "--bpf-dir", self.bpf_dir, "--metrics", "off"])

    def start_controld(self):
        self.launch_controld()
        self.session.wait("controld to have compiled its policy", self.session.is_started)
        self.wait_enforced()

    def wait_enforced(self):
        self.session.wait("both targets to enforce the policy", lambda: all(
            target["connected"] and target["acknowledged"] for target in self.session.call("status")["targets"]))

    def use(self, size):
        """Writes the next policy: each has to be compiled anew."""
        self.turn += 1
        targets = (f"targets:\n  - dataplane: {self.session.path('dataplane.sock')}\n"
                   f"  - xdp: {{interfaces: [{INTERFACE}], attach: auto}}\n")
        lists = f"  - {{name: of-the-wire, action: drop, entries: [{BLOCKED_SOURCE}, 203.0.113.{self.turn % 50}]}}\n"
        if size == "large":
            lists += f"  - {{name: large, action: drop, match: {('src', 'dst')[self.turn % 2]}, file: large.txt}}\n"
        with open(self.policy + ".new", "w", encoding="utf-8") as file:
            file.write(self.base.replace("lists:\n", targets + "lists:\n", 1) + lists)
        os.replace(self.policy + ".new", self.policy)

    def reload(self, size):
        self.use(size)
        answer = self.session.call("reload")
        if not answer["ok"]:
            raise SessionError(f"a reload failed: {answer}")

    def begin_reload(self, size):
        self.use(size)
        return controlctl(self.session, "reload")

    def phase(self):
        """What a reload is at; empty: none is under way."""
        status = self.session.call("status")
        phase = status.get("reloading") or ""
        if phase not in ("publish", "acknowledge"):
            return phase
        names = ["XDP" if "interfaces" in target else "the data plane" for target in status["targets"] if not target["acknowledged"]]
        return "publication to " + " and ".join(names) if names else "after its publication"

    # Orders.

    def wait_until(self, planes, on, begin, process=None):
        """{plane: milliseconds since begin} when its packets are judged so."""
        took = {}
        for plane in planes.values():
            plane.begin()

        def are_judged():
            for name, plane in planes.items():
                if name not in took and plane.is_bypassed() == on:
                    took[name] = (time.monotonic() - begin) * 1000
            return len(took) == len(planes)

        until(f"bypass {'on' if on else 'off'}", are_judged, PATIENCE_SECONDS, SessionError, turn=LOOK_SECONDS, about=lambda: (
            f" on {set(planes) - set(took)}: {process.communicate(timeout=PATIENCE_SECONDS) if process else ''}"))
        return took

    def wait_until_judged(self, on):
        self.wait_until(self.packets, on, time.monotonic())

    def order(self, on, planes=None):
        """({plane: milliseconds}, the process, which may still wait)"""
        begin = time.monotonic()
        process = controlctl(self.session, "bypass", "on" if on else "off")
        return self.wait_until(planes or self.packets, on, begin, process), process

    def detach(self):
        begin = time.monotonic()
        process = controlctl(self.session, "detach")
        return self.wait_until({"XDP": self.packets["XDP"]}, True, begin, process), process
