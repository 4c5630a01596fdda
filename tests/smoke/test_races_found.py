"""scripts/test --repeat --load finds tests that race, and leaves alone one that waits for what it looks at."""

import contextlib
import io
import sys

import pytest

from weir_smoke import write
import hunter

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(300)]

ROUNDS, SEED, SECONDS = 20, 36, 60
BEGIN = "import socket, subprocess, sys, time\n"
# A program that writes a line every 5 ms: it is looked at.
LINES = """
program = "import time\\nfor n in range(400):\\n  print(n, time.monotonic(), flush=True)\\n  time.sleep(0.005)"
child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
"""
# One that takes datagrams, with little room for those that wait, and tells how many came.
DATAGRAMS = """
program = '''
import socket
wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
wire.bind(("127.0.0.1", 0))
print(wire.getsockname()[1], flush=True)
n = 0
while wire.recv(100) != b"end": n += 1
print(n, flush=True)
'''
child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
port = int(child.stdout.readline())
wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(500):
  wire.sendto(b"one", ("127.0.0.1", port))
  time.sleep(0.002)
for _ in range(100):
  wire.sendto(b"end", ("127.0.0.1", port))
  time.sleep(0.02)
"""
# One that counts how often something came, and not how much.
EVENTS = """
program = "import os\\nn = 0\\nwhile os.read(0, 65536): n += 1\\nprint(n, flush=True)"
child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for _ in range(200):
  child.stdin.write(b"event")
  child.stdin.flush()
  time.sleep(0.005)
child.stdin.close()
"""
# One that computes: on a processor that is emulated, shared or slow it takes its time.
WORK = """
begin = time.monotonic()
child = subprocess.Popen([sys.executable, "-c", "sum(n * n for n in range(10_000_000))"])
child.wait()
assert time.monotonic() - begin < 1.0
"""
RACES = {
    "reads_too_soon": LINES + "time.sleep(1.5)\nlines = __import__('os').read(child.stdout.fileno(), 1 << 16).splitlines()\nassert len(lines) >= 250, lines\n",
    "bounds_time": LINES + "begin = time.monotonic()\nfor _ in range(200): child.stdout.readline()\nassert time.monotonic() - begin < 1.5\n",
    "bounds_each": LINES + "last = None\nfor _ in range(300):\n  at = float(child.stdout.readline().split()[1])\n  assert last is None or at - last < 0.05\n  last = at\n",
    "loses_frames": DATAGRAMS + "assert int(child.stdout.readline()) == 500\n",
    "counts_events": EVENTS + "assert int(child.stdout.readline()) == 200\n",
    "bounds_work": WORK,
}
SOUND = LINES + "for n in range(400): assert int(child.stdout.readline().split()[0]) == n\n"


def finds(folder, name, end, rounds):
    """(whether a run failed, what was printed)"""
    path = write(folder, f"{name}.py", BEGIN + end + "child.kill()\n")
    test = {"name": name, "of_suite": "none", "cmd": [sys.executable, path], "env": {}, "workdir": None, "timeout": SECONDS}
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        passed = hunter.hunt([test], folder, rounds, True, SEED)
    return not passed, told.getvalue()


@pytest.mark.parametrize("name", RACES)
def test_finds_a_race(name, folder):
    is_found, told = finds(folder, name, RACES[name], ROUNDS)
    assert is_found and f"again: scripts/test --test {name} --repeat {ROUNDS} --load --seed {SEED}" in told, told


def test_leaves_alone_what_waits(folder):
    is_found, told = finds(folder, "sound", SOUND, 5)
    assert not is_found, told
