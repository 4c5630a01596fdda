"""`meson install` into a folder: every file is there, programs and man pages with what they need, units with the places of this
installation; the installed programs start, and the installed policy and examples are good. A build that lacks a file says which."""

import json
import os
import re
import subprocess

from weir_smoke import BUILD, check, equal, temporary_folder

PROGRAMS = ("controlctl", "controld", "dataplane")
MODES = {"weir.yaml": 0o640, "reserve-huge-pages": 0o755, **dict.fromkeys(PROGRAMS, 0o755)}


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **more)


def introspect(what):
    return json.loads(subprocess.check_output(["meson", "introspect", what, BUILD]))


with temporary_folder() as folder:
    done = run("meson", "install", "-C", BUILD, "--no-rebuild", env={**os.environ, "DESTDIR": folder})
    equal(done.returncode, 0, f"exit code of meson install:\n{done.stdout}")
    expected = introspect("--installed").values()
    for path in expected:
        check(os.path.exists(folder + path), f"{path} is installed")
    check(len(expected) > 30, f"{len(expected)} files are installed")

    options = {entry["name"]: entry["value"] for entry in introspect("--buildoptions")}
    programs = os.path.join(options["prefix"], options["bindir"])
    for folder_there, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(folder_there, name)
            if name in MODES and "/doc/" not in path and "completion" not in path:
                equal(os.stat(path).st_mode & 0o7777, MODES[name], f"mode of {path}")
            if name.endswith((".service", ".mount")):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                named = re.findall(r"\S*/bin/(?:controlctl|controld|dataplane)\b", text)
                for program in named:
                    equal(os.path.dirname(program.lstrip("=+-!@:")[program.lstrip("=+-!@:").index("/"):]), programs,
                          f"where {name} looks for programs")
                check("/var/lib/weir" in text or not name.startswith(("weir-controld", "weir-dataplane")), f"{name}: state is below /var/lib")
    version = introspect("--projectinfo")["version"]
    for program in PROGRAMS:
        done = run(folder + os.path.join(programs, program), "--version")
        equal((done.returncode, done.stdout.split()), (0, [program, version]), f"{program} --version")
    controlctl = folder + os.path.join(programs, "controlctl")
    policies = [path for path in expected if path.endswith("/weir.yaml")]
    equal(len(policies), 2, f"the packaged policy and the example: {policies}")
    for policy in policies:
        done = run(controlctl, "check", folder + policy)
        equal(done.returncode, 0, f"controlctl check {policy}:\n{done.stdout}")
