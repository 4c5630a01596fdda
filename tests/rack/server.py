"""A server in QEMU: Debian 12 from its own disk, three network cards whose other ends are taps here."""

import ctypes
import os
import shutil
import signal
import subprocess
import time

from machine import BOOT_SECONDS, PLAIN_TIMERS, PORT, PR_SET_PDEATHSIG, TAP_MTU, Failed, Guest, Line, Machine
from until import Patience

CPUS, MEMORY_MIB = 2, 2560
FIRST_SLOT = 8
WORK_SECONDS = 1800  # for what apt does
LOOK_SECONDS = 10
# What is slow in an emulated processor alone, and doubles the time of apt: code at random addresses is translated anew for each,
# a kernel moves bytes one by one where `rep movsb` is said to be fast, and reads the clock of a device when it trusts no TSC.
CPU, FASTER = "max,erms=off", "norandmaps tsc=reliable"
NETWORK_CARD = "virtio-net-pci,disable-legacy=on,iommu_platform=on"
CARDS = ("filter0", "filter1", "host0")  # two for the data plane, one for XDP; their taps have the same names


class Server(Machine):
    """Its disk is a copy of the image."""

    def __init__(self, image, packages, folder, acceleration="tcg"):
        super().__init__(Guest("rack", cpu=CPU, iommu=True), folder)
        self.image, self.packages, self.acceleration = image, packages, acceleration
        self.disk = self._path("disk")

    def install(self):
        """A new disk, and the server for the first time."""
        subprocess.run(["cp", "--sparse=always", self.image.disk, self.disk], check=True)
        for tap, _ in self._taps():
            subprocess.run(["ip", "tuntap", "add", tap, "mode", "tap"], check=True)
            subprocess.run(["ip", "link", "set", tap, "mtu", str(TAP_MTU), "up"], check=True)
        self._power_on()

    def _power_on(self):
        for path in (self._path("line"), self._path("qmp")):
            if os.path.exists(path):
                os.unlink(path)
        self.line, self.monitor = Line(), Line()
        with open(self._path("qemu"), "wb") as log:
            self.qemu = subprocess.Popen(
                self._command(None, None), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        self._wait_until_up()

    def _taps(self):
        return [(name, 1) for name in CARDS]

    def _command(self, kernel, start_files):
        boot = f"root=/dev/vda rw console=ttyS0 mitigations=off {FASTER} {PLAIN_TIMERS} intel_iommu=on iommu=pt systemd.show_status=0"
        command = ["qemu-system-x86_64", "-M", f"q35,accel={self.acceleration}", "-cpu", CPU, "-smp", str(CPUS),
                   "-m", str(MEMORY_MIB), "-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{self.console}",
                   "-qmp", f"unix:{self._path('qmp')},server=on,wait=off",
                   "-kernel", self.image.kernel, "-initrd", self.image.initrd, "-append", boot,
                   "-device", "intel-iommu,intremap=on,device-iotlb=on",  # vfio refuses to work without intremap
                   "-drive", f"file={self.disk},format=raw,if=virtio,cache=unsafe",
                   "-drive", f"file={self.packages},format=raw,if=virtio,readonly=on",
                   "-device", "virtio-serial-pci", "-chardev", f"socket,id=line,path={self._path('line')},server=on,wait=off",
                   "-device", f"virtserialport,chardev=line,name={PORT}"]
        for number, name in enumerate(CARDS):
            command += ["-netdev", f"tap,id={name},ifname={name},script=no,downscript=no,vhost=off",
                        "-device", f"{NETWORK_CARD},netdev={name},bus=pcie.0,addr={FIRST_SLOT + number:#x}"]
        return command

    def card(self, name):
        return f"0000:00:{FIRST_SLOT + CARDS.index(name):02x}.0"

    def shell(self, command, good=(0,)):
        """What it prints; Failed when it ends with something else than expected."""
        done = self.ask("run", command=["sh", "-c", command])
        if good and done["code"] not in good:
            raise Failed(f"`{command}` ended with {done['code']}:\n{done['out']}{done['err']}")
        return done["out"] + done["err"]

    def work(self, command, good=(0,)):
        """The same for what may take long: the guest answers meanwhile."""
        name = f"work{time.monotonic_ns()}"
        self.ask("start", name=name, command=["sh", "-c", command], folder="/run/steps", environment={})
        patience = Patience(WORK_SECONDS, LOOK_SECONDS)
        while (code := self.ask("ended", name=name, seconds=LOOK_SECONDS)) is None:
            if patience.is_over():
                raise Failed(f"`{command}` takes more than {WORK_SECONDS} s:\n{self.ask('text', path=f'/run/steps/{name}.log')}")
        text = self.ask("text", path=f"/run/steps/{name}.log")
        if code not in good:
            raise Failed(f"`{command}` ended with {code}:\n{text}")
        return text

    def reboot(self):
        """Until it answers again. QEMU ends when the guest restarts, and starts anew: with the virtual IOMMU, a machine that
        was reset did not always come back."""
        self.send("run", command=["systemctl", "reboot"])
        try:
            self.qemu.wait(BOOT_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"it did not shut down:\n{self.last_words()}") from None
        self.line.close()
        self.monitor.close()
        shutil.copy(self.console, self.console + ".before")
        self._power_on()
