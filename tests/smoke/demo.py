"""scripts/demo runs to its end and shows what it promises. Skips where packages are missing: it would install them."""

import os
import re
import subprocess

from weir_smoke import BUILD, ROOT, check, run, skip

if subprocess.run([os.path.join(ROOT, "scripts/setup"), "demo", "--check"], stdout=subprocess.DEVNULL).returncode != 0:
    skip("package: scripts/setup demo --check misses packages: the demo would install them")
text = run(os.path.join(ROOT, "scripts/demo"), "--build", BUILD)
for expected in ("$ controlctl status", "$ controlctl stats", "$ controlctl explain", "$ controlctl reload",
                 "$ controlctl bypass on", "$ controlctl bypass off", "Both programs ended cleanly"):
    check(expected in text, f"'{expected}' is not in the demo's output:\n{text}")
check(re.search(r"\d packets, 0 lost", text), f"nothing is lost:\n{text}")

# Before the reload scanners drops and botnet does not; after it, the other way round.
drops = re.findall(r"list (scanners|botnet): drops ([\d,]+) packets/s", text)[-4:]
check([(name, rate != "0") for name, rate in drops] ==
      [("scanners", True), ("botnet", False), ("scanners", False), ("botnet", True)], f"the lists turn: {drops}")
dropped = re.findall(r"passed [\d,]+ packets/s, dropped ([\d,]+) packets/s", text)[-2:]
check(dropped[0] == "0" != dropped[1], f"nothing drops in bypass, something after it: {dropped}")
