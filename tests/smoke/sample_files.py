"""Files of captures, as tshark reads them."""

import os
import subprocess

SECOND_NS = 10**9


def tshark(path):
    """(time in ns, comment, interface, length, captured length) of every frame."""
    fields = ["frame.time_epoch", "frame.comment", "frame.interface_name", "frame.len", "frame.cap_len"]
    done = subprocess.run(["tshark", "-r", path, "-T", "fields", "-E", "separator=|"] +
                          [part for field in fields for part in ("-e", field)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"tshark on {path}: {done.stderr}"
    rows = []
    for line in done.stdout.splitlines():
        time, comment, interface, length, captured = line.split("|")
        seconds, fraction = time.split(".")
        rows.append((int(seconds) * SECOND_NS + int(fraction.ljust(9, "0")), comment, interface, int(length),
                     int(captured)))
    return rows


def files(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))
