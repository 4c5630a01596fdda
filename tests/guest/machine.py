"""One guest: its start file system, QEMU, and the line to guest.py in it."""

import ctypes
import glob
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "rig", "world"))
from kernel import Missing  # noqa: E402 (path first)
from until import Patience, until  # noqa: E402

PR_SET_PDEATHSIG = 1       # prctl(2): QEMU ends when this process does
PORT = "weir.guest"          # as in guest.py
NEEDED = ("qemu-system-x86_64", "busybox", "cpio", "depmod", "modprobe", "zstd", "ip")
MEMORY_MIB = 2048
HUGE_PAGES = 448           # of 2 MiB
TAP_MTU = 1600             # of the host alone: it asks no card, and lets two tags through
BOOT_SECONDS = 600         # 6 on an idle machine
ANSWER_SECONDS = 600       # to a request
TURN_SECONDS = 0.5         # of a wait for one
# Ticks that come by themselves: with a busy host under TCG, timers that are set one by one got lost, and a CPU slept
# for ever. Nor is it checked at the start whether timers tick in time.
PLAIN_TIMERS = "nohz=off highres=off no_timer_check rcupdate.rcu_cpu_stall_suppress=1"
FIRST_SLOT = 8             # on the root bus, of a card


class Failed(Exception):
    """The guest or a program in it did not do its part."""


@dataclass(frozen=True)
class Guest:
    name: str
    cpu: str             # QEMU's
    isa: str = ""        # that the data plane has to choose on it
    numa: bool = False   # two NUMA nodes, the last CPU alone on the second
    iommu: bool = False
    cards: tuple = ()    # tests/nic/cards.py

    def cpus(self):
        return 1 + max((card.queues for card in self.cards), default=1)  # the first one is not for workers


def check_programs():
    """Missing, when one of NEEDED is."""
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        raise Missing(f"qemu: no {', '.join(missing)}: scripts/setup test installs them")


def make_start_files(kernel, folder):
    """The initramfs; its path."""
    tree = os.path.join(folder, "start")
    os.makedirs(os.path.join(tree, "bin"))
    for name in ("proc", "sys", "dev", "modules"):
        os.mkdir(os.path.join(tree, name))
    shutil.copy(os.path.realpath(shutil.which("busybox")), os.path.join(tree, "bin", "busybox"))
    shutil.copy(os.path.join(HERE, "init"), tree)
    os.chmod(os.path.join(tree, "init"), 0o755)
    for module in kernel.modules:
        shutil.copy(module, os.path.join(tree, "modules"))
    with open(os.path.join(tree, "settings"), "w", encoding="utf-8") as file:
        file.write(f"PYTHON={shlex.quote(sys.executable)}\nAGENT={shlex.quote(os.path.join(HERE, 'guest.py'))}\n")
    path = os.path.join(folder, "start.cpio")
    names = "\n".join(os.path.relpath(name, tree) for name in [tree, *glob.glob(tree + "/**", recursive=True)])
    with open(path, "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=tree, input=names.encode(), stdout=out, check=True)
    return path


class Line:
    """JSON objects, one a line, over a Unix socket that QEMU opens."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.waiting = b""

    def connect(self, path):
        """False: QEMU does not listen there yet; it binds the socket first."""
        try:
            self.socket.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def send(self, what):
        self.socket.settimeout(ANSWER_SECONDS)
        self.socket.sendall(json.dumps(what).encode() + b"\n")

    def receive(self, seconds):
        """The next object, or None."""
        patience = Patience(seconds, TURN_SECONDS)
        while b"\n" not in self.waiting:
            self.socket.settimeout(min(max(0.0001, patience.left), TURN_SECONDS))
            try:
                part = self.socket.recv(1 << 16)
            except TimeoutError:
                if patience.is_over():
                    return None
                continue
            if not part:
                raise Failed("the guest ended")
            self.waiting += part
        line, self.waiting = self.waiting.split(b"\n", 1)
        return json.loads(line)

    def close(self):
        self.socket.close()


class Machine:
    """A running guest. Its taps are in the network namespace of this process."""

    def __init__(self, guest, folder):
        self.guest, self.folder = guest, folder
        self.line, self.monitor = Line(), Line()
        self.console = self._path("console")
        self.qemu = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.line.close()
        self.monitor.close()
        if self.qemu:
            self.qemu.kill()
            self.qemu.wait()
        for tap, _ in self._taps():
            subprocess.run(["ip", "link", "delete", tap], stderr=subprocess.DEVNULL, check=False)

    def boot(self, kernel, start_files):
        """Until the guest answers."""
        for tap, queues in self._taps():
            several = ["multi_queue"] if queues > 1 else []
            subprocess.run(["ip", "tuntap", "add", tap, "mode", "tap", *several], check=True)
            subprocess.run(["ip", "link", "set", tap, "mtu", str(TAP_MTU), "up"], check=True)
        with open(self._path("qemu"), "wb") as log:
            self.qemu = subprocess.Popen(
                self._command(kernel, start_files), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        self._wait_until_up()

    def _taps(self):
        """(name, queues)"""
        return [(self.tap(card, port), card.queues) for card in self.guest.cards for port in range(2)]

    def slot(self, card, port):
        """On the root bus."""
        return FIRST_SLOT + 2 * self.guest.cards.index(card) + port

    def address(self, card, port):
        return f"0000:00:{self.slot(card, port):02x}.0"

    def tap(self, card, port):
        return f"tap{self.guest.cards.index(card)}-{port}"

    def _path(self, name):
        return os.path.join(self.folder, f"{self.guest.name}.{name}")

    def _command(self, kernel, start_files):
        guest, cpus = self.guest, self.guest.cpus()
        boot = f"console=ttyS0 panic=-1 quiet mitigations=off {PLAIN_TIMERS} hugepagesz=2M hugepages={HUGE_PAGES}"
        boot += " intel_iommu=on iommu=pt" if guest.iommu else " intel_iommu=off"
        command = ["qemu-system-x86_64", "-M", "q35,accel=tcg", "-cpu", guest.cpu, "-smp", str(cpus),
                   "-m", str(MEMORY_MIB), "-display", "none", "-nic", "none", "-no-reboot", "-serial", f"file:{self.console}",
                   "-qmp", f"unix:{self._path('qmp')},server=on,wait=off",
                   "-kernel", kernel.image, "-initrd", start_files, "-append", boot,
                   "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
                   "-device", "virtio-9p-pci,fsdev=host,mount_tag=host", "-device", "virtio-serial-pci",
                   "-chardev", f"socket,id=line,path={self._path('line')},server=on,wait=off",
                   "-device", f"virtserialport,chardev=line,name={PORT}"]
        if guest.iommu:
            command += ["-device", "intel-iommu,intremap=on,device-iotlb=on"]  # vfio refuses to work without intremap
        if guest.numa:  # the last CPU is alone on node 1
            for node, node_cpus in enumerate((f"0-{cpus - 2}", str(cpus - 1))):
                command += ["-object", f"memory-backend-ram,id=node{node},size={MEMORY_MIB // 2}M",
                            "-numa", f"node,nodeid={node},memdev=node{node},cpus={node_cpus}"]
        for card in guest.cards:
            for port in range(2):
                tap = self.tap(card, port)
                queues = f",queues={card.queues}" if card.queues > 1 else ""
                command += ["-netdev", f"tap,id={tap},ifname={tap},script=no,downscript=no,vhost=off{queues}",
                            "-device", f"{card.device},netdev={tap},bus=pcie.0,addr={self.slot(card, port):#x}"]
        return command

    def _wait_until_up(self):
        lines = [(self.line, self._path("line")), (self.monitor, self._path("qmp"))]  # that are not connected yet

        def is_up():
            lines[:] = [(line, path) for line, path in lines if not line.connect(path)]
            return not lines and self.line.receive(1) == {"value": "ready"}

        until("an answer", is_up, BOOT_SECONDS, Failed, turn=0.1,
              ended=lambda: f"QEMU ended with {self.qemu.poll()}" if self.qemu.poll() is not None else "")
        self._command_monitor("qmp_capabilities")

    def last_words(self):
        words = ""
        for path in (self._path("qemu"), self.console):
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    words += "\n".join(file.read().splitlines()[-15:]) + "\n"
        return words

    def _command_monitor(self, command, **arguments):
        self.monitor.send({"execute": command, "arguments": arguments})
        while True:
            answer = self.monitor.receive(ANSWER_SECONDS)
            if answer is None or "error" in answer:
                raise Failed(f"QEMU: {command} {arguments}: {answer}")
            if "return" in answer:
                return

    def set_link(self, tap, up):
        """Pulls the cable, or plugs it in."""
        self._command_monitor("set_link", name=tap, up=up)

    def send(self, do, **arguments):
        """A request whose answer is awaited with poll()."""
        self.line.send({"do": do, "with": arguments})

    def poll(self, seconds=0.0):
        """[value] of the answer, or [] when it is not there yet."""
        answer = self.line.receive(seconds)
        if answer is None:
            return []
        if "error" in answer:
            raise Failed(f"in the guest: {answer['error']}")
        return [answer["value"]]

    def ask(self, do, **arguments):
        self.send(do, **arguments)
        answer = self.poll(ANSWER_SECONDS)
        if not answer:
            raise Failed(f"the guest did not answer {do} in {ANSWER_SECONDS} s:\n{self.last_words()}")
        return answer[0]
