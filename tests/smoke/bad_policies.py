"""controlctl check on every policy under configs/bad: exit code 1, the output begins with the expected text, and
nothing changes on disk."""

import glob
import os
import subprocess

from weir_smoke import BUILD, ROOT, check, equal, read, temporary_folder

FOLDER = "configs/bad"  # relative, as the expected texts name it


def disk(*folders):
    """Every file below the folders with its size and time of change."""
    found = {}
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                status = os.stat(os.path.join(parent, name))
                found[os.path.join(parent, name)] = (status.st_size, status.st_mtime_ns)
    return found


os.chdir(ROOT)
policies = sorted(glob.glob(f"{FOLDER}/*.yaml"))
check(len(policies) > 20, f"{FOLDER} holds policies")
with temporary_folder() as home:
    # Where the program would write if it wrote anything.
    environment = dict(os.environ, HOME=home, XDG_STATE_HOME=f"{home}/state", XDG_RUNTIME_DIR=home, TMPDIR=home)
    before = disk("configs", home)
    for policy in policies:
        expected = read(policy.removesuffix(".yaml") + ".expected").decode()
        done = subprocess.run([os.path.join(BUILD, "control/controlctl"), "check", policy], text=True, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        equal(done.returncode, 1, f"{policy}: exit code\n{done.stdout}")
        check(expected and done.stdout.startswith(expected),
              f"{policy}: expected\n{expected}\nfound\n{done.stdout}")
    equal(disk("configs", home), before, "files on disk")

    # What only the finished bytes tell is refused, too, as a reload would refuse it.
    policy = os.path.join(home, "canary.yaml")
    with open(policy, "w", encoding="utf-8") as file:
        file.write("version: 1\nfilter: {canaries: [192.0.2.7]}\n"
                   "lists:\n  - {name: l, action: drop, entries: [192.0.2.0/24]}\n")
    done = subprocess.run([os.path.join(BUILD, "control/controlctl"), "check", policy], text=True, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    equal(done.returncode, 1, f"a canary drops: exit code\n{done.stdout}")
    check(f"canary.yaml: error: canary 192.0.2.7 would drop as source: list l, entry 192.0.2.0/24 ({policy}:4)" in done.stdout
          and "\nhint: put it into a pass list" in done.stdout, done.stdout)
print(f"{len(policies)} policies")
