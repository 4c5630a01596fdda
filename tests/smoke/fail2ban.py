"""fail2ban itself, with the action that weir ships: what it bans is enforced, and what it lets go is not."""

import os
import shutil
import subprocess
import time

from weir_smoke import BUILD, ROOT, Session, check, equal, make_samples, read_capture, skip, start_loop, write

POLICY = "version: 1\nlists:\n  - {name: jail, action: drop, dynamic: true}\n"
FILES = {
    "fail2ban.conf": "[Definition]\nloglevel = DEBUG\nlogtarget = {folder}/fail2ban.log\nsocket = {folder}/fail2ban.sock\n"
                     "pidfile = {folder}/fail2ban.pid\ndbfile = None\ndbpurgeage = 1d\ndbmaxmatches = 10\n",
    "jail.conf": "[DEFAULT]\nusedns = no\nignoreself = false\n[door]\nenabled = true\nbackend = polling\nfilter = door\n"
                 "logpath = {folder}/door.log\nmaxretry = 2\nfindtime = 600\nbantime = 600\n"
                 "action = weir[list=jail, ttl=\"--ttl <bantime>s\", controlctl={controlctl}, options=\"--socket {socket}\"]\n",
    "filter.d/door.conf": "[Definition]\nfailregex = refused <HOST>$\ndatepattern = ^%%Y-%%m-%%d %%H:%%M:%%S\n",
}

if shutil.which("fail2ban-server") is None:
    skip("program: no fail2ban-server: scripts/setup test installs it")
with Session(BUILD) as session:
    make_samples(session.folder, flows=100, frames=1000)
    start_loop(session, read_capture(session.path("capture.pcap")))
    session.start_controld(write(session.folder, "jail.yaml", POLICY))
    session.wait_enforced()

    config = session.path("fail2ban")
    for name, text in FILES.items():
        write(config, name, text.format(folder=session.folder, socket=session.path("controld.sock"),
                                        controlctl=os.path.join(BUILD, "control/controlctl")))
    os.makedirs(os.path.join(config, "action.d"))
    shutil.copy(os.path.join(ROOT, "configs/fail2ban/weir.conf"), os.path.join(config, "action.d"))
    write(session.folder, "door.log", "")

    def client(*arguments):
        done = subprocess.run(["fail2ban-client", "-c", config, "-s", session.path("fail2ban.sock"), "-p", session.path("fail2ban.pid"),
                               *arguments], capture_output=True, text=True, timeout=60, check=False)
        equal(done.returncode, 0, f"fail2ban-client {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def refuse(address):
        with open(session.path("door.log"), "a", encoding="ascii") as log:
            for _ in range(2):
                log.write(time.strftime("%Y-%m-%d %H:%M:%S") + f" refused {address}\n")

    def drops(address):
        code, out, err = session.controlctl("test", "-q", address)
        check(code in (0, 1), f"test {address} ended with {code}: {out}{err}")
        return code == 0

    client("-x", "start")
    session.at_exit(lambda: client("stop") if os.path.exists(session.path("fail2ban.sock")) else None)
    for address in ("203.0.113.7", "2001:db8::7"):
        equal(drops(address), False, f"{address} before it is refused")
        refuse(address)
        session.wait(f"the ban of {address}", lambda: drops(address))
        entry, = [one for one in session.call("entries", name="jail")["entries"] if one["entry"] == address]
        check("fail2ban: door" in entry["comment"] and entry["added_by"] == os.geteuid(), entry)
        check(580 < entry["expires"] - time.time() <= 600, entry)
        client("set", "door", "unbanip", address)
        equal(drops(address), False, f"{address} after fail2ban let it go")
    client("set", "door", "banip", "203.0.113.9")
    session.wait("a ban by hand", lambda: drops("203.0.113.9"))
    client("stop")
    equal(drops("203.0.113.9"), False, "after fail2ban stopped, which lets all go")
    with open(session.path("fail2ban.log"), encoding="utf-8") as log:
        wrong = [line for line in log if " ERROR " in line]
    equal(wrong, [], "errors of fail2ban")
    equal((session.stop("dataplane"), session.stop("controld")), (0, 0), "exit codes of both")
