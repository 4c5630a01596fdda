"""Builds the Debian packages: the committed tree in a folder, with configs/debian as its debian/. Standard library only."""

import fcntl
import glob
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

from session import ROOT, tail

FOLDER = os.path.join(ROOT, "build-package")
OLDER_URGENCY = """weir ({version}-1) unstable; urgency=medium

  * Built from the same source as another version, to try an upgrade.

{signed}

"""
STEP = re.compile(r"^\[(\d+)/(\d+)\]")


class PackageError(Exception):
    """What went wrong, and the last lines of its log."""


@dataclass
class Packages:
    version: str
    debs: list     # paths
    changes: str   # path of the .changes file
    seconds: float


def project_version():
    with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as file:
        return re.search(r"^\s*version: '([^']+)'", file.read(), re.M).group(1)


def build_packages(out, version=None):
    """What is committed, as packages in the folder out. Several may call at once: the second one waits."""
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _build(out, version)


def _build(out, version):
    start = time.monotonic()
    tree = os.path.join(FOLDER, "weir")
    shutil.rmtree(tree, ignore_errors=True)
    os.makedirs(tree)
    with subprocess.Popen(["git", "-C", ROOT, "archive", "HEAD"], stdout=subprocess.PIPE) as archive:
        unpacked = subprocess.run(["tar", "-x", "-C", tree], stdin=archive.stdout).returncode
    if archive.returncode != 0 or unpacked != 0:
        raise PackageError("`git archive HEAD` failed: packages are made of what is committed")
    shutil.copytree(os.path.join(tree, "configs/debian"), os.path.join(tree, "debian"))
    if version:
        _set_version(tree, version)
    version = version or project_version()
    log = os.path.join(FOLDER, "build.log")
    for old in glob.glob(os.path.join(FOLDER, "weir*_*")):
        os.unlink(old)
    _run_build(tree, log)
    os.makedirs(out, exist_ok=True)
    made = glob.glob(os.path.join(FOLDER, "weir*_*"))
    if os.path.realpath(out) != os.path.realpath(FOLDER):
        made = [shutil.move(path, os.path.join(out, os.path.basename(path))) for path in made]
    changes, = [path for path in made if path.endswith(".changes")]
    return Packages(version, sorted(path for path in made if path.endswith(".deb")), changes, round(time.monotonic() - start, 1))


def _set_version(tree, version):
    path = os.path.join(tree, "meson.build")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r"^(\s*version: ')[^']+", rf"\g<1>{version}", text, count=1, flags=re.M))
    path = os.path.join(tree, "debian/changelog")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    signed = re.search(r"^ -- .*$", text, re.M).group(0)
    with open(path, "w", encoding="utf-8") as file:
        file.write(OLDER_URGENCY.format(version=version, signed=signed) + text)


def _run_build(tree, log):
    environment = {**os.environ, "DEB_BUILD_OPTIONS": os.environ.get("DEB_BUILD_OPTIONS", "") + " nocheck", "LC_ALL": "C.UTF-8"}
    if shutil.which("ccache"):  # debhelper gives the build another home
        environment["CCACHE_DIR"] = subprocess.check_output(["ccache", "--get-config", "cache_dir"], text=True).strip()
        own = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "ccache", "ccache.conf")
        if os.path.exists(own):
            environment.setdefault("CCACHE_CONFIGPATH", own)
    print("package: building (minutes the first time)", file=sys.stderr, flush=True)
    on_terminal = sys.stderr.isatty()
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(["dpkg-buildpackage", "-b", "-us", "-uc"], cwd=tree, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        for line in process.stdout:
            file.write(line)
            if on_terminal and (step := STEP.match(line)):
                print(f"\rpackage: {step[1]} of {step[2]}", end="", file=sys.stderr, flush=True)
        code = process.wait()
    if on_terminal:
        print(file=sys.stderr)
    if code != 0:
        with open(log, encoding="utf-8") as file:
            raise PackageError(f"dpkg-buildpackage failed (all of it: {log}):\n{tail(file.read(), 30)}")


def lint(packages):
    """What lintian finds, a line each, as far as `pedantic`; none is the aim."""
    done = subprocess.run(["lintian", "--display-info", "--pedantic", "--allow-root", packages.changes],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 1, 2):
        raise PackageError(f"lintian failed:\n{tail(done.stdout)}")
    return [line for line in done.stdout.splitlines() if re.match(r"[EWIP]: ", line)]
