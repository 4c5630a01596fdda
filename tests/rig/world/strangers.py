"""Frames whose keys nobody lists, made of a snapshot file by tests/strangers/stranger_frames; and what controld says of them."""

import json
import os
import random
import subprocess

from session import SessionError

PROGRAM = "tests/strangers/stranger_frames"


def make_strangers(build, snapshot, out, frames, *options, seed=1):
    """{shape: {"keys": different ones that were written, "let_through": of them, by the filter}}"""
    done = subprocess.run([os.path.join(build, PROGRAM), snapshot, out, "--frames", str(frames), "--seed", str(seed),
                           *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SessionError(f"{PROGRAM} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def write_lists(folder, seed=1):
    """A policy of hosts, services and networks: three shapes with a hashed filter. Its path."""
    chosen = random.Random(seed)
    networks = [chosen.randrange(1 << 24) for _ in range(4000)]

    def host():
        network = 0
        while network >> 16 in (0, 127) or network >> 20 >= 14 or network >> 8 in (0xc612, 0xc613):
            network = chosen.choice(networks)
        return ".".join(str(byte) for byte in (network << 8 | chosen.randrange(256)).to_bytes(4, "big"))

    def host6():
        return f"2001:db8:{chosen.randrange(1 << 12):x}::{chosen.randrange(1 << 16):x}:{chosen.randrange(1 << 16):x}"

    rows = {"hosts": sorted({host() for _ in range(20000)}), "hosts6": sorted({host6() for _ in range(6000)}),
            "services": sorted({f"{host()}:{chosen.randrange(1, 65536)}" for _ in range(4000)})}
    for name, entries in rows.items():
        with open(os.path.join(folder, name + ".txt"), "w", encoding="utf-8") as file:
            file.write("".join(entry + "\n" for entry in entries))
    return rows


POLICY = """\
version: 1
{more}
lists:
  - {{name: hosts, action: drop, file: hosts.txt, guard: {{reserved: keep}}}}
  - {{name: hosts6, action: drop, file: hosts6.txt, guard: {{reserved: keep}}}}
  - {{name: services, action: drop, match: dst, file: services.txt, guard: {{reserved: keep}}}}
  - {{name: now, action: drop, dynamic: true}}
"""
SHAPES = {"v4 addr/32", "v6 addr/128", "v4 addr/32 + port"}


def rates_of(answer, overlay=False):
    """{shape: rate} of an answer of status or shapes, of one target."""
    return {rate["shape"]: rate for rate in answer["false_positives"] if rate["overlay"] == overlay}


def outside(answer):
    """[(target, shape, verdict)]"""
    return [(rate["target"], rate["shape"], rate["verdict"]) for rate in answer["false_positives"] if rate["verdict"] != "inside"]
