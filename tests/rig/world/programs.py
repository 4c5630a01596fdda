"""Programs of the build, run once: what they print and write. WEIR_BUILD names the build folder (default build/)."""

import contextlib
import json
import os
import subprocess
import tempfile

from session import ROOT

BUILD = os.path.abspath(os.environ.get("WEIR_BUILD", os.path.join(ROOT, "build")))


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def run(*command, expect=0):
    """Runs a program of the project; the test fails on another exit code than expected. Returns what it printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == expect, f"{' '.join(command)} ended with {done.returncode}, expected {expect}:\n{done.stdout}"
    return done.stdout


def replay(*arguments, expect=0):
    return run(os.path.join(ROOT, "scripts/replay"), "--build", BUILD, *arguments, expect=expect)


def outputs(folder, name):
    """(--passed, --dropped, --json) below folder."""
    return tuple(os.path.join(folder, f"{name}-{part}") for part in ("passed.pcap", "dropped.pcap", "totals.json"))


def as_options(paths):
    return ["--passed", paths[0], "--dropped", paths[1], "--json", paths[2]]


def reference(config, pcap, paths):
    """The reference classifier's totals of a capture."""
    run(os.path.join(BUILD, "tests/reference/reference-capture"), "--config", config, "--pcap", pcap,
        *as_options(paths))
    return load(paths[2])


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def agrees_with_reference(folder, config, pcap):
    """replay --once and the reference: the same totals, the same frames, byte by byte. Returns the totals."""
    ours, theirs = outputs(folder, "replay"), outputs(folder, "reference")
    expected = reference(config, pcap, theirs)
    replay("--once", "--config", config, "--pcap", pcap, *as_options(ours))
    found = load(ours[2])
    for key, value in expected.items():
        assert found[key] == value, f"{os.path.basename(config)}: {key}"
    for mine, its in zip(ours[:2], theirs[:2]):
        assert read(mine) == read(its), f"{os.path.basename(config)}: {mine} is not {its}, byte by byte"
    return found


@contextlib.contextmanager
def temporary_folder():
    with tempfile.TemporaryDirectory(prefix="weir-smoke-") as folder:
        yield folder
