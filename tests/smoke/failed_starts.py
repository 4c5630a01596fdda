"""A start that fails leaves nothing behind that another user would meet, and nothing is thrown where a folder cannot be read."""

import os
import subprocess

from weir_smoke import BUILD, Session, check, equal, skip, write

if os.geteuid() != 0:
    skip("root: it starts programs as other users")
BAD, GOOD = "version: 1\nlists: [{name: x}]\n", "version: 1\ntargets: []\nlists: [{name: x, action: drop, entries: [192.0.2.1]}]\n"
NOBODY = 65534

with Session(BUILD) as session:
    os.chmod(session.folder, 0o755)
    write(session.folder, "bad.yaml", BAD)
    write(session.folder, "good.yaml", GOOD)
    for policy in ("bad.yaml", "good.yaml"):
        os.chmod(session.path(policy), 0o644)

    def run(program, *arguments, **how):
        return subprocess.run([os.path.join(BUILD, program), *arguments], capture_output=True, text=True, timeout=120, cwd=session.folder, **how)

    def start(policy, *arguments, socket="s.sock", **how):
        return run("control/controld", "--config", session.path(policy), "--socket", session.path(socket), "--metrics", "off", *arguments, **how)

    # Root fails: the folder is not there afterwards, or as empty as it was.
    done = start("bad.yaml", "--state-dir", session.path("state"))
    equal(done.returncode, 1, f"a start with a bad policy: {done.stderr}")
    check("there is no last good in" in done.stderr, done.stderr)
    check(not os.path.exists(session.path("state")), "a new state folder stays after a start that failed")
    os.mkdir(session.path("empty"), 0o700)
    equal(start("bad.yaml", "--state-dir", session.path("empty")).returncode, 1, "a start in an empty folder")
    equal(os.listdir(session.path("empty")), [], "what a failed start left")

    # In a folder of another user root makes nothing.
    os.mkdir(session.path("foreign"), 0o755)
    os.chown(session.path("foreign"), NOBODY, NOBODY)
    done = start("bad.yaml", "--state-dir", session.path("foreign/state"))
    check(done.returncode == 1 and "belongs to user" in done.stderr, f"a folder of another user: {done.returncode} {done.stderr}")
    equal(os.listdir(session.path("foreign")), [], "what root made in a folder of another user")

    # A home that cannot be read is told.
    home = session.path("home")
    os.mkdir(home, 0o700)
    environment = {"HOME": home, "PATH": "/usr/bin:/bin"}
    os.mkdir(session.path("foreign/run"), 0o755)
    os.chown(session.path("foreign/run"), NOBODY, NOBODY)
    done = start("good.yaml", socket="foreign/run/s.sock", user=NOBODY, group=NOBODY, env=environment)
    equal(done.returncode, 1, f"a start whose home cannot be read: {done.stderr}")
    check(f"cannot create folder {home}/.local" in done.stderr and "Permission denied" in done.stderr, done.stderr)
    done = run("control/controlctl", "check", session.path("good.yaml"), user=NOBODY, group=NOBODY, env=environment)
    equal(done.returncode, 0, f"a check whose home cannot be read: {done.stdout}{done.stderr}")
print("starts by root and by a user without a home")
