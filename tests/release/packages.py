"""Makes Debian packages of what is committed, for the Debian that runs here, and has lintian look at them. scripts/package calls it.

Builds in build-package/ (the place is part of what makes two builds the same), without tests, by dpkg-buildpackage and the
files of configs/debian. ccache is used when it is there. Standard library only.

Exit code: 0; 1 when the build failed or lintian found something; 2 when it could not be tried.
"""

import argparse
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../rig"))
import rooms  # noqa: E402,F401
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
    # alien-tag: an override for what only the lintian of another Debian looks for.
    done = subprocess.run(["lintian", "--display-info", "--pedantic", "--allow-root", "--suppress-tags", "alien-tag", packages.changes],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 1, 2):
        raise PackageError(f"lintian failed:\n{tail(done.stdout)}")
    return [line for line in done.stdout.splitlines() if re.match(r"[EWIP]: ", line)]


def main():
    parser = argparse.ArgumentParser(prog="package", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=FOLDER, metavar="DIR", help="of the packages (build-package)")
    parser.add_argument("--version", metavar="X.Y.Z", help="instead of meson.build's: to try an upgrade")
    parser.add_argument("--no-lint", action="store_true", help="without lintian")
    parser.add_argument("--json", metavar="FILE", help="packages and findings")
    arguments = parser.parse_args()
    if arguments.version and not re.fullmatch(r"\d+\.\d+\.\d+", arguments.version):
        parser.error(f"--version {arguments.version}: three numbers with dots, as 0.1.0")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        packages = build_packages(os.path.abspath(arguments.out), arguments.version)
        findings = None if arguments.no_lint else lint(packages)
    except PackageError as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"packages": packages.debs, "findings": findings}, file, indent=1)
    for deb in packages.debs:
        print(f"{deb}  {os.path.getsize(deb) / 1024:,.0f} KiB")
    if findings is None:
        return 0
    print("\n".join(findings) or "lintian: no finding")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
