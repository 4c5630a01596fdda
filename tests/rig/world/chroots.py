"""A Debian in a folder, entered by chroot: what scripts/fresh and scripts/test --on run the project in. Needs root and debootstrap;
standard library only.

What is mounted there is mounted in a mount namespace of this process: nobody else sees it, and it ends with the process, however that
ends.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess

from namespaces import NoNamespace, bind, own_mounts
from rig import Skip, say
from session import PR_SET_PDEATHSIG, ROOT, tail

CLONE = "/root/weir"  # in the folder
DATA = "/root/data"
MADE = "etc/weir-made-it"  # in a folder that is complete; what it says: the suite
MNT_DETACH = 2  # umount2(2)
SOURCES = "etc/apt/sources.list.d/debian.sources"


def check_machine():
    """Skip, when nothing can be tried here. From here on, mounts are this process's own."""
    if os.geteuid() != 0:
        raise Skip("root: chroot and debootstrap need it", missing_here=True)
    if not shutil.which("debootstrap"):
        raise Skip("package: no debootstrap: scripts/setup test installs it", missing_here=True)
    try:
        own_mounts()
    except NoNamespace as reason:
        raise Skip(str(reason)) from None


def own_suite():
    """Of the machine: "bookworm"; empty: it says none."""
    with contextlib.suppress(OSError), open("/etc/os-release", encoding="utf-8") as file:
        for line in file:
            if line.startswith("VERSION_CODENAME="):
                return line.split("=")[1].strip().strip('"')
    return ""


def make_system(folder, suite, mirror):
    """A minimal Debian. mirror: empty: debootstrap's own."""
    done = subprocess.run(["debootstrap", "--variant=minbase", suite, folder, *([mirror] if mirror else [])], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        raise Skip(f"debootstrap failed: {' '.join(tail(done.stdout, 3).split())}", missing_here=True)
    ours = own_suite()
    if not mirror and ours and os.path.isfile("/" + SOURCES):  # packages come from where this machine's do
        with open("/" + SOURCES, encoding="utf-8") as file:
            sources = file.read().replace(ours, suite)
        os.remove(os.path.join(folder, "etc/apt/sources.list"))
        with open(os.path.join(folder, SOURCES), "w", encoding="utf-8") as file:
            file.write(sources)
    for name in ("resolv.conf", "hosts"):
        shutil.copy(os.path.join("/etc", name), os.path.join(folder, "etc", name))
    with open(os.path.join(folder, MADE), "w", encoding="utf-8") as file:
        file.write(suite + "\n")


def made_suite(folder):
    """The suite of a complete system in the folder, or None."""
    with contextlib.suppress(OSError), open(os.path.join(folder, MADE), encoding="utf-8") as file:
        return file.read().strip()
    return None


@contextlib.contextmanager
def entered(folder):
    """While it lasts, the folder has the machine's /proc, /sys and /dev, and the test data. Its network is this machine's, too."""
    mounted = []
    try:
        for name in ("proc", "sys", "dev"):
            mount(mounted, "/" + name, os.path.join(folder, name))
        data = os.path.realpath(os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data")))
        if os.path.isdir(data):
            os.makedirs(folder + DATA, exist_ok=True)
            mount(mounted, data, folder + DATA)
        yield
    finally:
        libc = ctypes.CDLL(None)
        for target in reversed(mounted):
            libc.umount2(target.encode(), MNT_DETACH)


def mount(mounted, source, target):
    try:
        bind(source, target)
    except NoNamespace as reason:
        raise Skip(str(reason)) from None
    mounted.append(target)


def remove(folder):
    """Never what is mounted in it. debootstrap, interrupted, leaves /proc there."""
    folder = os.path.realpath(folder)
    for point in reversed(mounts_in(folder)):
        ctypes.CDLL(None).umount2(point.encode(), MNT_DETACH)
    if inside_of_it := mounts_in(folder):
        say(f"{folder} stays: {', '.join(inside_of_it)} is mounted there")
        return
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)


def mounts_in(folder):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        return [point for line in file if (point := line.split()[4]).startswith(folder + "/")]


def clone(folder, source=ROOT):
    """What is committed. Of a clone that is there, what was built stays."""
    place = folder + CLONE
    if not os.path.isdir(place + "/.git"):
        subprocess.run(["git", "clone", "-q", source, place], check=True)
        return
    for command in (("fetch", "-q", source, "HEAD"), ("reset", "-q", "--hard", "FETCH_HEAD"), ("clean", "-q", "-fd")):
        subprocess.run(["git", "-C", place, *command], check=True)


def inside(folder, *command, environment=None, heard=None):
    """Runs it in the clone in the folder; (exit code, text). heard(line) is called for each line of it."""
    variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
                 "WEIR_DATA": DATA, **(environment or {})}
    lines = []
    # A session of its own: when this process ends it, all of it ends.
    process = subprocess.Popen(["chroot", folder, "/bin/sh", "-c", 'cd "$0" && exec "$@"', CLONE, *command],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", env=variables, start_new_session=True,
                               preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM))
    try:
        for line in process.stdout:
            lines.append(line)
            if heard:
                heard(line)
        return process.wait(), "".join(lines)
    except BaseException:  # interrupted: what was started ends before what it runs in is taken away
        end_group(process)
        raise


def end_group(process):
    for kind, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            if kind == signal.SIGKILL:
                return
