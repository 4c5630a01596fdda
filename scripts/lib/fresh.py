"""A fresh Debian 12 in a folder, and the project's own commands in it, timed. Needs root and debootstrap; standard library
only.

The folder is made by debootstrap with nothing but apt, entered by chroot in a mount namespace of its own, and removed with
it. What counts begins with `git clone` and ends with the last line; making the folder and downloading packages do not, as
they measure the network: they are told apart.
"""

import ctypes
import os
import shutil
import subprocess
import tempfile
import time

from namespaces import NoNamespace, bind, own_mounts
from rig import Skip, say
from session import ROOT, SessionError, tail

SUITE = "bookworm"
CLONE = "/root/weir"  # in the folder
DATA = "/root/data"
# The first line of a phase, by how it begins, and the phase's name. What comes before the first is `setup`.
PHASES = (("setup: installing", "install"), ("setup: packages installed", "setup"), ("configuring", "configure"),
          ("building", "build"), ("== Samples", "demo"))


def make_system(folder, mirror):
    """A minimal Debian: seconds it took. mirror: empty: debootstrap's own."""
    start = time.monotonic()
    done = subprocess.run(["debootstrap", "--variant=minbase", SUITE, folder, *([mirror] if mirror else [])], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        raise Skip(f"debootstrap failed: {' '.join(tail(done.stdout, 3).split())}", missing_here=True)
    if not mirror and os.path.isfile("/etc/apt/sources.list.d/debian.sources"):  # packages come from where this machine's do
        os.remove(os.path.join(folder, "etc/apt/sources.list"))
        shutil.copy("/etc/apt/sources.list.d/debian.sources", os.path.join(folder, "etc/apt/sources.list.d"))
    for name in ("resolv.conf", "hosts"):
        shutil.copy(os.path.join("/etc", name), os.path.join(folder, "etc", name))
    return time.monotonic() - start


def inside(folder, *command):
    """Runs it in the clone in the folder: (exit code, text, seconds of each phase)."""
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
                   "WEIR_DATA": DATA}
    start = began = time.monotonic()
    phase, seconds, lines = "setup", {}, []
    process = subprocess.Popen(["chroot", folder, "/bin/sh", "-c", 'cd "$0" && exec "$@"', CLONE, *command],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", env=environment)
    for line in process.stdout:
        lines.append(line)
        for beginning, name in PHASES:
            if line.startswith(beginning):
                now = time.monotonic()
                seconds[phase] = seconds.get(phase, 0) + now - began
                phase, began = name, now
    code = process.wait()
    seconds[phase] = seconds.get(phase, 0) + time.monotonic() - began
    seconds["all"] = time.monotonic() - start
    return code, "".join(lines), {name: round(value, 1) for name, value in seconds.items()}


def measure_fresh(what, mirror="", source=ROOT):
    """what: "demo", or "test" for scripts/test after it. {"system_s", "download_s", "clone_s", "demo": phases, ...}"""
    if os.geteuid() != 0:
        raise Skip("chroot and debootstrap need root", missing_here=True)
    if not shutil.which("debootstrap"):
        raise Skip("no debootstrap: scripts/setup bench installs it", missing_here=True)
    try:
        own_mounts()
    except NoNamespace as reason:
        raise Skip(str(reason)) from None
    with tempfile.TemporaryDirectory(prefix="weir-fresh-") as holder:
        folder = os.path.join(holder, "debian")
        os.mkdir(folder)
        say(f"fresh: making a Debian {SUITE} in {folder}")
        result = {"system_s": round(make_system(folder, mirror), 1)}
        mounted = []
        try:
            # Its own network is this machine's: packages come from the mirror.
            for name in ("proc", "sys", "dev"):
                bind("/" + name, os.path.join(folder, name))
                mounted.append(name)
            data = os.path.realpath(os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data")))
            if os.path.isdir(data):
                os.makedirs(folder + DATA)
                bind(data, folder + DATA)
                mounted.append(DATA[1:])
            start = time.monotonic()
            subprocess.run(["git", "clone", "-q", source, folder + CLONE], check=True)
            result["clone_s"] = round(time.monotonic() - start, 1)
            archives = os.path.join(folder, "var/cache/apt/archives")
            for name in os.listdir(archives):  # what debootstrap left
                if name.endswith(".deb"):
                    os.unlink(os.path.join(archives, name))
            code, text, seconds = inside(folder, "scripts/setup", "demo", "--download")
            if code != 0:
                raise Skip(f"the packages cannot be downloaded: {' '.join(tail(text, 3).split())}", missing_here=True)
            result["download_s"] = seconds["all"]
            packages = [name for name in os.listdir(archives) if name.endswith(".deb")]
            result["packages"] = len(packages)
            result["download_mib"] = round(sum(os.path.getsize(os.path.join(archives, name)) for name in packages) / 2**20)
            for command in (("demo",) if what == "demo" else ("demo", "test")):
                say(f"fresh: scripts/{command}")
                code, text, seconds = inside(folder, "scripts/" + command, *(["--require"] if command == "test" else []))
                result[command] = seconds
                result[command + "_last_line"] = text.splitlines()[-1] if text else ""
                if code != 0:
                    raise SessionError(f"scripts/{command} ended with {code} in a fresh Debian:\n{tail(text, 60)}")
            return result
        except NoNamespace as reason:
            raise Skip(str(reason)) from None
        finally:
            libc = ctypes.CDLL(None)
            for name in reversed(mounted):  # or removing the folder would remove what is mounted in it
                libc.umount2(os.path.join(folder, name).encode(), 2)  # MNT_DETACH
