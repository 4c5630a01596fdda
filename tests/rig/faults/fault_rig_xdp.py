"""The rig of faults whose enforcer is controld itself, by XDP: frames go into one end of a veth and are counted behind the program at the
other. Standard library only."""

import os
import select
import socket
import subprocess
import threading

from fault_rig import FRAMES, GROUPS, SETTLE_SECONDS, Rig, Wrong
from namespaces import mount_bpf, own_mounts, own_network
from pace import hold
from until import Patience

ATTACH_SECONDS = 2  # for frames that are under way
INNOCENTS, KEPT_OUT = (tuple(frame for frame in FRAMES if socket.inet_ntoa(frame[26:30]).startswith(GROUPS[name][0]))
                       for name in ("innocents", "blocked"))
OUTGOING = 4  # packet(7): what the interface itself sent


class Wire:
    """Frames into one end of a veth, all the while; what comes behind the program at the other end is counted by group."""

    def __init__(self, near, far):
        self.near, self.far = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW) for _ in range(2))
        self.near.bind((near, 0))
        self.far.bind((far, 3))  # ETH_P_ALL
        self.lock = threading.Lock()  # guards what follows
        self.sent, self.arrived = 0, dict.fromkeys(GROUPS, 0)
        self.lost = 0  # innocents that are not waited for any more
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def take(self, seconds):
        while select.select([self.far], [], [], seconds)[0]:
            frame, address = self.far.recvfrom(2048)
            if address[2] == OUTGOING or len(frame) < 34:
                continue
            source = socket.inet_ntoa(frame[26:30])
            for name, (prefix, _) in GROUPS.items():
                self.arrived[name] += source.startswith(prefix)
            seconds = 0

    def run(self):
        while not self.stopping.is_set():
            with self.lock:
                for frame in (*INNOCENTS, *KEPT_OUT):
                    self.near.send(frame)
                self.sent += len(INNOCENTS)
                self.take(0)
            hold(0.003)

    def take_all(self, seconds):
        """Until every innocent that was sent has arrived, or has had so many seconds for it: then it is lost, once and for all."""
        patience = Patience(seconds)
        while self.arrived["innocents"] + self.lost < self.sent and not patience.is_over():
            self.take(0.05)
        self.take(0.02)
        self.lost = self.sent - self.arrived["innocents"]

    def forget_lost(self):
        """What was under way when a program was attached: a veth may lose it then, as cards do."""
        with self.lock:
            self.take_all(ATTACH_SECONDS)

    def counts(self):
        """(innocents sent, how many frames of each group arrived), when all that was sent has arrived."""
        with self.lock:
            self.take_all(SETTLE_SECONDS)
            return self.sent, dict(self.arrived)

    def send_round(self):
        """How many frames of each group arrive, of one of each source."""
        with self.lock:
            self.take(0.02)
            before = dict(self.arrived)
            for frame in FRAMES:
                self.near.send(frame)
            self.sent += len(INNOCENTS)
            self.take_all(SETTLE_SECONDS)
            return {name: self.arrived[name] - before[name] for name in GROUPS}

    def close(self):
        self.stopping.set()
        self.thread.join()


class XdpRig(Rig):
    """controld that enforces by XDP, on a veth in a network and with a BPF file system of this process alone."""

    enforcer = "controld"
    programs = ("controld",)

    def targets(self):
        return "targets: [{xdp: {interfaces: [in0]}}]"

    def start(self):
        own_network()
        own_mounts()
        os.makedirs(self.session.path("bpf"))
        mount_bpf(self.session.path("bpf"))
        self.session.at_exit(lambda: subprocess.run(["umount", "--lazy", self.session.path("bpf")], check=False))
        one = ["numrxqueues", "1", "numtxqueues", "1"]
        for command in (["link", "add", "out0", *one, "type", "veth", "peer", "name", "in0", *one], ["link", "set", "out0", "up"],
                        ["link", "set", "in0", "up"]):
            subprocess.run(["ip", *command], check=True)
        self.wire = Wire("out0", "in0")
        self.session.at_exit(self.wire.close)
        self.start_controld()
        self.session.wait_enforced()
        self.wire.forget_lost()

    def start_controld(self):
        self.preloaded("controld")
        self.session.start_controld(self.session.path("weir.yaml"), targets=False, extra=["--bpf-dir", self.session.path("bpf")])

    def traffic(self, packets=0):
        passed = self.wire.send_round()
        return {"dropped by expiring": GROUPS["expiring"][1] - passed["expiring"], "bypassed": passed["blocked"]}

    def wait_for_clock(self):
        """A publication reads it."""
        self.turn()
        self.ask_well("reload")

    def passing(self):
        passed = self.wire.send_round()
        found = [name for name in ("left", "right") if passed[name] == GROUPS[name][1]]
        if len(found) != 1 or passed["left"] * passed["right"] != 0:
            raise Wrong(f"neither left nor right passes: {passed}")
        return found[0]

    def watch(self):
        return self.wire.counts()

    def check_watch(self, before, may=()):
        sent, arrived = self.wire.counts()
        leaked, lost = arrived["blocked"] - before[1]["blocked"], sent - before[0] - arrived["innocents"] + before[1]["innocents"]
        if leaked and "bypassed" not in may:
            raise Wrong(f"{leaked} packets that are blocked came through")
        if lost:
            raise Wrong(f"{lost} of {sent - before[0]} innocent packets were dropped")
