"""`meson install` into a folder: programs and man pages have their modes, units name the places of this installation, the
installed programs start, the installed policies are good."""

import json
import os
import re
import subprocess

from weir_smoke import BUILD, needs_programs

PROGRAMS = ("controlctl", "controld", "dataplane")
MODES = {"weir.yaml": 0o640, "reserve-huge-pages": 0o755, **dict.fromkeys(PROGRAMS, 0o755)}

pytestmark = needs_programs("meson")


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **more)


def introspect(what):
    return json.loads(subprocess.check_output(["meson", "introspect", what, BUILD]))


def paths_of(folder):
    return [os.path.join(here, name) for here, _, names in os.walk(folder) for name in names]


def check_files(folder, expected):
    assert len(expected) > 30, f"{len(expected)} files are installed"
    for path in expected:
        assert os.path.exists(folder + path), f"{path} is installed"


def check_modes(folder):
    for path in paths_of(folder):
        name = os.path.basename(path)
        if name in MODES and "/doc/" not in path and "completion" not in path:
            assert os.stat(path).st_mode & 0o7777 == MODES[name], f"mode of {path}"


def check_units(folder, programs):
    """They start the installed programs. State is below /var/lib."""
    for path in paths_of(folder):
        name = os.path.basename(path)
        if not name.endswith((".service", ".mount")):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for place in re.findall(r"(/(?:[^\s=]*/)?bin)/(?:controlctl|controld|dataplane)\b", text):
            assert place == programs, f"{name} names programs of another place"
        assert "/var/lib/weir" in text or not name.startswith(("weir-controld", "weir-dataplane")), f"state of {name} is below /var/lib"


def check_programs(folder, programs):
    version = introspect("--projectinfo")["version"]
    for program in PROGRAMS:
        done = run(folder + os.path.join(programs, program), "--version")
        assert (done.returncode, done.stdout.split()) == (0, [program, version]), f"{program} --version"


def check_policies(folder, programs, expected):
    policies = [path for path in expected if path.endswith("/weir.yaml")]
    assert len(policies) == 2, f"the packaged policy and the example: {policies}"
    for policy in policies:
        done = run(folder + os.path.join(programs, "controlctl"), "check", folder + policy)
        assert done.returncode == 0, f"controlctl check {policy}:\n{done.stdout}"


def test_an_installation_is_whole(folder):
    done = run("meson", "install", "-C", BUILD, "--no-rebuild", env={**os.environ, "DESTDIR": folder})
    assert done.returncode == 0, f"exit code of meson install:\n{done.stdout}"
    expected = list(introspect("--installed").values())
    options = {entry["name"]: entry["value"] for entry in introspect("--buildoptions")}
    programs = os.path.join(options["prefix"], options["bindir"])
    check_files(folder, expected)
    check_modes(folder)
    check_units(folder, programs)
    check_programs(folder, programs)
    check_policies(folder, programs, expected)
