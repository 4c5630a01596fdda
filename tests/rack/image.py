"""The disk of a server with Debian 12 and nothing of weir, made by mmdebstrap and kept in the user's cache.

Its kernel and start file system come out of it: QEMU loads them, so it needs no boot loader.
"""

import glob
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

from kernel import Missing

SUITE = "bookworm"
# What an installed server has beside the essential packages, and Python for the program that does what the test asks.
# Certificates are of priority `standard`; making their folder takes minutes in an emulated processor.
PACKAGES = ("linux-image-amd64", "systemd-sysv", "udev", "dbus", "iproute2", "kmod", "procps", "zstd", "python3", "ca-certificates")
DISK_MIB = 3072
MAKE_SECONDS = 1800
AGENT = """[Unit]
Description=does what the test asks
DefaultDependencies=no
RequiresMountsFor=/mnt
After=systemd-udevd.service systemd-tmpfiles-setup.service
Conflicts=shutdown.target
Before=shutdown.target

[Service]
ExecStart=/usr/bin/python3 -I /mnt/guest.py
OOMScoreAdjust=-900

[Install]
WantedBy=sysinit.target
"""
FILES = {
    "etc/fstab": "/dev/vda / ext4 defaults 0 1\nLABEL=weir-packages /mnt ext4 ro,nofail 0 0\n",
    "etc/hostname": "rack\n",
    "etc/hosts": "127.0.0.1 localhost rack\n",
    "etc/apt/sources.list": "deb [trusted=yes] file:/mnt/packages ./\n",
    "etc/systemd/system/test-agent.service": AGENT,
    "etc/default/motd-news": "ENABLED=0\n",
}
# Its start file system has what a virtual machine needs, as MODULES=dep gives it to one that is installed by hand: half of
# the time of a start went to the other 30 MB.
EARLY_FILES = {
    "etc/initramfs-tools/conf.d/small": "MODULES=list\n",
    "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
}
# Timers that would do their work in the minutes of the test.
MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer", "getty@tty1.service",
          "systemd-timesyncd.service")


@dataclass(frozen=True)
class Image:
    disk: str
    kernel: str
    initrd: str
    status: str   # dpkg's, of what is installed


def get_image(new=False):
    """From the cache, or made."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weir", "rack")
    recipe = hashlib.sha256(repr((SUITE, PACKAGES, DISK_MIB, EARLY_FILES, FILES, MASKED)).encode()).hexdigest()[:12]
    folder = os.path.join(cache, f"{SUITE}-{recipe}")
    if new or not os.path.exists(folder):
        os.makedirs(cache, exist_ok=True)
        for old in glob.glob(os.path.join(cache, SUITE + "-*")):
            shutil.rmtree(old)
        with tempfile.TemporaryDirectory(dir=cache) as work:
            made = os.path.join(work, "image")
            _make(os.path.join(work, "root"), made)
            os.rename(made, folder)
    return Image(*(os.path.join(folder, name) for name in ("disk", "vmlinuz", "initrd", "status")))


def _make(root, made):
    if not shutil.which("mmdebstrap"):
        raise Missing("package: no mmdebstrap: scripts/setup test installs it")
    sources = "/etc/apt/sources.list.d/debian.sources"
    early = made + ".early"
    _write(early, EARLY_FILES)
    done = subprocess.run(["mmdebstrap", "--mode=root", "--variant=apt", "--include=" + ",".join(PACKAGES),
                           f"--essential-hook=cp -r {early}/. \"$1\"", SUITE, root,
                           *([sources] if os.path.isfile(sources) else [])],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=MAKE_SECONDS)
    if done.returncode != 0:
        raise Missing(f"package: mmdebstrap failed: {' '.join(done.stdout.strip().splitlines()[-3:])}")
    for path in glob.glob(root + "/etc/apt/sources.list.d/*"):
        os.unlink(path)
    _write(root, FILES)
    for unit in MASKED:
        link = os.path.join(root, "etc/systemd/system", unit)
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink("/dev/null", link)
    wanted = os.path.join(root, "etc/systemd/system/sysinit.target.wants")
    os.makedirs(wanted, exist_ok=True)
    os.symlink("/etc/systemd/system/test-agent.service", wanted + "/test-agent.service")
    with open(os.path.join(root, "etc/machine-id"), "w", encoding="ascii") as file:  # or systemd takes this for the first boot
        file.write(hashlib.md5(b"weir rack").hexdigest() + "\n")
    os.mkdir(made)
    for name, pattern in (("vmlinuz", "boot/vmlinuz-*"), ("initrd", "boot/initrd.img-*"), ("status", "var/lib/dpkg/status")):
        shutil.copy(*glob.glob(os.path.join(root, pattern)), os.path.join(made, name))
    make_disk(os.path.join(made, "disk"), root, "weir-root", DISK_MIB)


def _write(root, files):
    for path, text in files.items():
        path = os.path.join(root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)


def make_disk(path, folder, label, mib):
    """A disk with a copy of the folder."""
    with open(path, "wb") as file:
        file.truncate(mib << 20)
    done = subprocess.run(["mke2fs", "-q", "-t", "ext4", "-L", label, "-d", folder, path], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Missing(f"package: mke2fs failed: {done.stdout.strip()}")
