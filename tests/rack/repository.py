"""The second disk: weir's packages, those that they are upgraded to, all that they depend on as a repository of apt, and the
program that does what the test asks."""

import glob
import os
import shutil
import subprocess

from image import make_disk
from kernel import Missing

HERE = os.path.dirname(os.path.abspath(__file__))
AGENT = [os.path.join(HERE, "..", *path) for path in (("guest", "guest.py"), ("rig", "world", "until.py"))]
FETCH_SECONDS = 900
SPARE_MIB = 64


def make_packages_disk(path, image, debs, following_debs, folder):
    """debs: weir's; following_debs: what comes after them. folder: an empty one to work in."""
    weir, following, needed = (os.path.join(folder, name) for name in ("weir", "next", "packages"))
    for each in (weir, following, needed):
        os.mkdir(each)
    for deb in debs:
        shutil.copy(deb, weir)
    for deb in following_debs:
        make_later(deb, following, os.path.join(folder, "later"))
    shutil.rmtree(os.path.join(folder, "later"))
    for deb in {*fetch(image, debs), *fetch(image, following_debs)}:
        shutil.copy(deb, needed)
    for command, name in ((["apt-ftparchive", "packages", "."], "Packages"), (["apt-ftparchive", "release", "."], "Release")):
        with open(os.path.join(folder, name), "wb") as out:
            subprocess.run(command, cwd=needed, stdout=out, check=True)
        shutil.move(os.path.join(folder, name), needed)
    for agent in AGENT:
        shutil.copy(agent, folder)
    used = sum(os.path.getsize(name) for name in glob.glob(folder + "/**", recursive=True) if os.path.isfile(name))
    make_disk(path, folder, "weir-packages", (used >> 20) * 11 // 10 + SPARE_MIB)


def make_later(deb, out, work):
    """The same files under a later number: what an upgrade does is up to dpkg, the scripts of the package and systemd."""
    shutil.rmtree(work, ignore_errors=True)
    subprocess.run(["dpkg-deb", "-R", deb, work], check=True)
    control = os.path.join(work, "DEBIAN/control")
    with open(control, encoding="utf-8") as file:
        text = file.read()
    version = next(line.split()[1] for line in text.splitlines() if line.startswith("Version: "))
    with open(control, "w", encoding="utf-8") as file:
        file.write(text.replace(version, version + "+next"))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", work, out], check=True, stdout=subprocess.DEVNULL)


def fetch(image, debs):
    """What these packages need and the image has not: paths of files that apt brought, from its mirror or an earlier run."""
    archives = os.path.join(os.path.dirname(image.disk), "archives")
    os.makedirs(os.path.join(archives, "partial"), exist_ok=True)
    options = {"Dir::State::status": image.status, "Dir::Cache::archives": archives, "Debug::NoLocking": "1",
               "APT::Install-Recommends": "1", "APT::Sandbox::User": "root", "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": ""}
    command = ["apt-get", "-q", "-y", *(f"-o{name}={value}" for name, value in options.items()), "--download-only", "install", *debs]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=FETCH_SECONDS)
    if done.returncode != 0:
        raise Missing(f"package: apt cannot bring what weir needs (apt-get update may help): {' '.join(done.stdout.strip().splitlines()[-3:])}")
    return sorted(glob.glob(os.path.join(archives, "*.deb")))
