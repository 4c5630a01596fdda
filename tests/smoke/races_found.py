"""scripts/test --repeat --load finds tests that race, and leaves alone one that waits for what it looks at."""

import contextlib
import io
import sys

from weir_smoke import check, temporary_folder, write
import hunter

ROUNDS, SEED, SECONDS = 20, 36, 60
# Each starts a program that writes a line every 5 ms, and looks at what it wrote.
BEGIN = """
import subprocess, sys, time
program = "import time\\nfor n in range(400):\\n  print(n, time.monotonic(), flush=True)\\n  time.sleep(0.005)"
child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
"""
RACES = {
    "reads_too_soon": "time.sleep(1.5)\nlines = __import__('os').read(child.stdout.fileno(), 1 << 16).splitlines()\nassert len(lines) >= 250, lines\n",
    "bounds_time": "begin = time.monotonic()\nfor _ in range(200): child.stdout.readline()\nassert time.monotonic() - begin < 1.5\n",
    "bounds_each": "last = None\nfor _ in range(300):\n  at = float(child.stdout.readline().split()[1])\n  assert last is None or at - last < 0.05\n  last = at\n",
}
SOUND = "for n in range(400): assert int(child.stdout.readline().split()[0]) == n\n"


def finds(folder, name, end, rounds):
    """(whether a run failed, what was printed)"""
    path = write(folder, f"{name}.py", BEGIN + end + "child.kill()\n")
    test = {"name": name, "of_suite": "none", "cmd": [sys.executable, path], "env": {}, "workdir": None, "timeout": SECONDS}
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        passed = hunter.hunt([test], folder, rounds, True, SEED)
    return not passed, told.getvalue()


with temporary_folder() as folder:
    for name, end in RACES.items():
        is_found, told = finds(folder, name, end, ROUNDS)
        check(is_found and f"again: scripts/test --suite none --test {name} --repeat {ROUNDS} --load --seed {SEED}" in told, f"{name} is found: {told}")
    is_found, told = finds(folder, "sound", SOUND, 5)
    check(not is_found, f"a test without a race passes: {told}")
