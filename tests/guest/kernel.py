"""The guest's kernel: the distribution's package, unpacked into the user's cache. Nothing is installed.

Of the package only the kernel and the modules that the guest loads are kept.
"""

import glob
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

META_PACKAGES = ("linux-image-amd64", "linux-image-generic")  # Debian; Ubuntu
PARTS = re.compile(r"^linux-(image|modules|modules-extra)-\d")
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console", "vfio_iommu_type1", "vfio-pci",
           "uio_pci_generic")
FETCH_SECONDS = 300


class Missing(Exception):
    """Something that this machine lacks; the text says what, and how to get it."""


@dataclass
class Kernel:
    name: str
    image: str
    modules: list  # paths, in the order in which they are loaded


def run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=FETCH_SECONDS, **options)


def get_kernel():
    """From the cache, or fetched by apt. Missing when there is neither."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weir", "nic-guest")
    packages = _packages() if shutil.which("apt-get") else []
    if packages:
        wanted = os.path.join(cache, packages[0].replace("=", "_"))
        if not os.path.exists(wanted):
            os.makedirs(cache, exist_ok=True)
            problem = _fetch(packages, wanted)
            if problem:
                return _newest(cache, problem)
        return _load(wanted)
    return _newest(cache, f"apt knows no {' or '.join(META_PACKAGES)}: run apt-get update")


def _newest(cache, problem):
    """An older one is as good, when a new one cannot be had."""
    kept = sorted(glob.glob(os.path.join(cache, "linux-image-*")), key=os.path.getmtime)
    if not kept:
        raise Missing(f"qemu: no kernel for the guest: {problem}")
    return _load(kept[-1])


def _load(folder):
    modules = sorted(glob.glob(os.path.join(folder, "modules", "*.ko")))
    return Kernel(os.path.basename(folder), os.path.join(folder, "vmlinuz"), modules)


def _packages():
    """name=version of the image and of the packages with its modules, the image first."""
    for meta in META_PACKAGES:
        found, ask = [], [meta]
        while ask:
            for line in run("apt-cache", "depends", "--important", ask.pop()).stdout.splitlines():
                name = line.strip().removeprefix("Depends: ")
                if name != line.strip() and PARTS.match(name) and name not in found:
                    found.append(name)
                    ask.append(name)
        if found:
            found.sort(key=lambda name: not name.startswith("linux-image-"))
            return [f"{name}={version}" for name in found if (version := _candidate(name))]
    return []


def _candidate(package):
    match = re.search(r"Candidate: (\S+)", run("apt-cache", "policy", package).stdout)
    return match.group(1) if match and match.group(1) != "(none)" else None


def _fetch(packages, wanted):
    """Fills the folder wanted. What went wrong, or None."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(wanted)) as folder:
        done = run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *packages, cwd=folder)
        if done.returncode != 0:
            return f"apt-get download {' '.join(packages)} failed (apt-get update may help): {_last_line(done.stdout)}"
        tree, kept = os.path.join(folder, "tree"), os.path.join(folder, "kept")
        for package in glob.glob(os.path.join(folder, "*.deb")):
            done = run("dpkg-deb", "-x", package, tree)
            if done.returncode != 0:
                return f"dpkg-deb -x {os.path.basename(package)} failed: {_last_line(done.stdout)}"
        os.makedirs(os.path.join(kept, "modules"))
        shutil.copy(*glob.glob(os.path.join(tree, "boot", "vmlinuz-*")), os.path.join(kept, "vmlinuz"))
        for number, module in enumerate(_modules_in_order(tree)):
            _unpack(module, os.path.join(kept, "modules", f"{number:02}-"))
        if not os.path.exists(wanted):  # another run may have been faster
            os.rename(kept, wanted)
    return None


def _last_line(text):
    return (text.strip().splitlines() or ["no reason given"])[-1]


def _modules_in_order(tree):
    """Each after those that it needs."""
    base = tree if os.path.isdir(os.path.join(tree, "lib", "modules")) else os.path.join(tree, "usr")
    version, = os.listdir(os.path.join(base, "lib", "modules"))
    run("depmod", "-b", base, version)
    paths = []
    for module in MODULES:
        shown = run("modprobe", "-d", base, "-S", version, "--show-depends", module)
        if shown.returncode != 0:
            raise Missing(f"qemu: the kernel {version} has no module {module}: {_last_line(shown.stdout)}")
        paths += [line.split()[1] for line in shown.stdout.splitlines() if line.startswith("insmod ")]
    return list(dict.fromkeys(paths))


def _unpack(module, prefix):
    """Modules come plain, as .ko.xz or as .ko.zst."""
    name, kind = re.fullmatch(r"(.*\.ko)(|\.xz|\.zst)", os.path.basename(module)).groups()
    with open(prefix + name, "wb") as out:
        if kind == ".zst":
            subprocess.run(["zstd", "-dcq", module], stdout=out, check=True)
        else:
            with (lzma.open if kind == ".xz" else open)(module, "rb") as file:
                shutil.copyfileobj(file, out)
