"""A fresh Debian 12 in a folder, and the project's own commands in it, timed. Needs root and debootstrap; standard library
only.

What counts begins with `git clone` and ends with the last line; making the folder and downloading packages do not, as they
measure the network: they are told apart.
"""

import os
import tempfile
import time

import chroots
from rig import Skip, say
from session import ROOT, SessionError, tail

SUITE = "bookworm"
# The first line of a phase, by how it begins, and the phase's name. What comes before the first is `setup`.
PHASES = (("setup: installing", "install"), ("setup: packages installed", "setup"), ("configuring", "configure"),
          ("building", "build"), ("package: building", "build"), ("== Samples", "demo"))
# What runs there, in order: its name, and the command. Of README's part "Install" all that needs no service that runs.
DEMO = ("scripts/demo", ["scripts/demo"])
INSTALL = "apt-get install -qq -y ./build-package/weir*.deb && getent group weir-admin && controlctl check /etc/weir/weir.yaml"
COMMANDS = {"demo": [DEMO],
            "test": [DEMO, ("scripts/test", ["scripts/test", "--require"])],
            "package": [("scripts/package", ["scripts/package"]), ("the packages", ["/bin/sh", "-c", INSTALL])]}


def inside(folder, *command):
    """Runs it in the clone in the folder: (exit code, text, seconds of each phase)."""
    start = began = time.monotonic()
    phase, seconds = "setup", {}

    def heard(line):
        nonlocal phase, began
        for beginning, name in PHASES:
            if line.startswith(beginning):
                now = time.monotonic()
                seconds[phase] = seconds.get(phase, 0) + now - began
                phase, began = name, now

    code, text = chroots.inside(folder, *command, heard=heard)
    seconds[phase] = seconds.get(phase, 0) + time.monotonic() - began
    seconds["all"] = time.monotonic() - start
    return code, text, {name: round(value, 1) for name, value in seconds.items()}


def measure_fresh(what, mirror="", source=ROOT):
    """what: of COMMANDS. {"system_s", "download_s", "clone_s", "commands": {name: {"all": seconds, phase: seconds}}, ...}"""
    chroots.check_machine()
    holder = tempfile.mkdtemp(prefix="weir-fresh-")
    try:
        folder = os.path.join(holder, "debian")
        os.mkdir(folder)
        say(f"fresh: making a Debian {SUITE} in {folder}")
        start = time.monotonic()
        chroots.make_system(folder, SUITE, mirror)
        result = {"system_s": round(time.monotonic() - start, 1)}
        with chroots.entered(folder):
            return measure_in(folder, what, source, result)
    finally:
        chroots.remove(holder)


def measure_in(folder, what, source, result):
    start = time.monotonic()
    chroots.clone(folder, source)
    result["clone_s"] = round(time.monotonic() - start, 1)
    archives = os.path.join(folder, "var/cache/apt/archives")
    for name in os.listdir(archives):  # what debootstrap left
        if name.endswith(".deb"):
            os.unlink(os.path.join(archives, name))
    code, text, seconds = inside(folder, "scripts/setup", "package" if what == "package" else "demo", "--download")
    if code != 0:
        raise Skip(f"the packages cannot be downloaded: {' '.join(tail(text, 3).split())}", missing_here=True)
    result["download_s"] = seconds["all"]
    packages = [name for name in os.listdir(archives) if name.endswith(".deb")]
    result["packages"] = len(packages)
    result["download_mib"] = round(sum(os.path.getsize(os.path.join(archives, name)) for name in packages) / 2**20)
    result["commands"], result["last_lines"] = {}, {}
    for name, command in COMMANDS[what]:
        say(f"fresh: {name}")
        code, text, seconds = inside(folder, *command)
        result["commands"][name] = seconds
        result["last_lines"][name] = text.splitlines()[-1] if text else ""
        if code != 0:
            raise SessionError(f"{name}: exit code {code} in a fresh Debian:\n{tail(text, 60)}")
    return result
