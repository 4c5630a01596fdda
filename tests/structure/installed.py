#!/usr/bin/env python3
"""`meson install` puts what is named here, and nothing else; no file of configs/ that belongs on a machine is forgotten; the
packages of configs/debian have each of them once, and are built with what scripts/setup installs. Nothing is installed.
    installed.py BUILD
"""
import fnmatch
import glob
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Below the prefix; {unit}, {udev}, {zsh} and {etc} are where they are in this build. A new file: its line here.
EXPECTED = """
bin/controlctl
bin/controld
bin/dataplane
bin/weir
{etc}/default/weir-controld
{etc}/default/weir-crowdsec
{etc}/default/weir-hugepages
{etc}/fail2ban/action.d/weir.conf
{etc}/weir/dataplane-main.env
{etc}/weir/dataplane-main.yaml
{etc}/weir/weir.yaml
{unit}/run-weir-bpf.mount
{unit}/weir-controld.service
{unit}/weir-crowdsec.service
{unit}/weir-dataplane@.service
{unit}/weir-flowspec@.service
{unit}/weir-hugepages.service
{udev}/rules.d/60-weir-vfio.rules
lib/sysusers.d/weir-control.conf
lib/sysusers.d/weir-dataplane.conf
lib/tmpfiles.d/weir-control.conf
lib/weir/reserve-huge-pages
lib/weir/weir-connect
share/bash-completion/completions/controlctl.bash
share/bash-completion/completions/controld.bash
share/bash-completion/completions/dataplane.bash
share/bash-completion/completions/weir.bash
share/doc/weir/LICENSE
share/doc/weir/README.md
share/doc/weir/architecture.md
share/doc/weir/architecture.svg
share/doc/weir/examples/dataplane.yaml
share/doc/weir/examples/feeds
share/doc/weir/examples/host-mode.yaml
share/doc/weir/examples/steer.yaml
share/doc/weir/examples/weir.yaml
share/doc/weir/idea.svg
share/doc/weir/operate
share/doc/weir/use
share/fish/vendor_completions.d/controlctl.fish
share/fish/vendor_completions.d/controld.fish
share/fish/vendor_completions.d/dataplane.fish
share/fish/vendor_completions.d/weir.fish
share/man/man1/controlctl.1
share/man/man1/weir.1
share/man/man5/dataplane.yaml.5
share/man/man5/steer.yaml.5
share/man/man5/weir.yaml.5
share/man/man8/controld.8
share/man/man8/dataplane.8
share/weir/monitoring/prometheus.yml
share/weir/monitoring/weir-alerts.yml
share/weir/monitoring/weir-dashboard.json
share/weir/schema/dataplane.schema.json
share/weir/schema/steer.schema.json
share/weir/schema/weir.schema.json
share/weir/weir-combined.bpf.o
share/weir/weir-steer.bpf.o
share/weir/weir.bpf.o
{zsh}/_controlctl
{zsh}/_controld
{zsh}/_dataplane
""".split()
FOLDERS = ("monitoring", "packaged", "systemd", "sysusers.d", "tmpfiles.d", "udev")  # of configs/
PACKAGES = ("weir-connect", "weir-control", "weir-dataplane", "weir-doc")


def option(options, name):
    return next(entry["value"] for entry in options if entry["name"] == name)


def introspect(what, build):
    return json.loads(subprocess.check_output(["meson", "introspect", what, build]))


def packaged_wrong(expected):
    """What a package lacks, or two have. {,usr/}lib in a pattern: Debian 12 has units and udev rules in /lib, 13 in /usr/lib."""
    patterns = []
    for package in PACKAGES:
        with open(os.path.join(ROOT, "configs/debian", package + ".install"), encoding="ascii") as file:
            lines = [line for line in file if line.strip() and not line.startswith(("#", "debian/"))]
        patterns += [(package, line.split()[0].removeprefix("{,usr/}")) for line in lines]
    for name in expected:
        path = name.format(etc="etc", unit="lib/systemd/system", udev="lib/udev", zsh="usr/share/zsh/vendor-completions")
        path = path if name.startswith("{") else "usr/" + path
        has = [package for package, pattern in patterns if fnmatch.fnmatch(path, pattern) or path.startswith(pattern + "/")]
        if len(has) != 1:
            yield f"{path} is in {len(has)} packages of configs/debian ({', '.join(has)}), not in 1"


def needs_wrong():
    """What scripts/setup installs to build with, and the packages do not name, or the other way round. Libraries only."""
    with open(os.path.join(ROOT, "scripts/setup"), encoding="utf-8") as file:
        setup = set(re.findall(r"\b[a-z0-9+.-]+-dev\b", re.search(r'^demo="([^"]*)"', file.read(), re.M).group(1)))
    with open(os.path.join(ROOT, "configs/debian/control"), encoding="utf-8") as file:
        needs = re.search(r"^Build-Depends:(.*?)^\S", file.read(), re.M | re.S).group(1)
    packages = set(re.findall(r"\b[a-z0-9+.-]+-dev\b", needs)) - {"systemd-dev"}
    yield from (f"scripts/setup installs {name}, and Build-Depends of configs/debian/control lack it" for name in sorted(setup - packages))
    yield from (f"configs/debian/control wants {name}, and scripts/setup does not install it" for name in sorted(packages - setup))


def main():
    build = sys.argv[1]
    options = introspect("--buildoptions", build)
    prefix = option(options, "prefix")
    etc = os.path.normpath(os.path.join(prefix, option(options, "sysconfdir")))
    found = introspect("--installed", build)
    unit = next((os.path.dirname(path) for path in found.values() if path.endswith("weir-controld.service")), "?")
    udev = next((path.removesuffix("/rules.d/60-weir-vfio.rules") for path in found.values() if "weir-vfio" in path), "?")
    zsh = "share/zsh/vendor-completions" if prefix == "/usr" else "share/zsh/site-functions"
    expected = {os.path.normpath(os.path.join(prefix, name.format(etc=etc, unit=unit, udev=udev, zsh=zsh))) for name in EXPECTED}
    there = {os.path.normpath(path) for path in found.values()}
    wrong = [f"expected, but not installed: {path}" for path in sorted(expected - there)]
    wrong += [f"installed, but not expected: {path}: name it in {sys.argv[0]}" for path in sorted(there - expected)]
    names = {os.path.basename(path) for path in there}
    for folder in FOLDERS:
        for path in sorted(glob.glob(os.path.join(ROOT, "configs", folder, "**/*"), recursive=True)):
            if os.path.isfile(path) and os.path.basename(path) not in names:
                wrong.append(f"{os.path.relpath(path, ROOT)} is not installed: name it in configs/meson.build")
    wrong += [*packaged_wrong(EXPECTED), *needs_wrong()]
    print("\n".join(wrong) or f"{len(there)} files and folders are installed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
