"""fail2ban itself, with the action that weir ships: an address that it bans is dropped, and one that it unbans passes."""

import os
import shutil
import subprocess
import time

import pytest

from weir_smoke import BUILD, ROOT, make_samples, needs_programs, read_capture, start_loop, write

pytestmark = needs_programs("fail2ban-server", "fail2ban-client")

POLICY = "version: 1\nlists:\n  - {name: jail, action: drop, dynamic: true}\n"
BAN_S = 600
FILES = {
    "fail2ban.conf": "[Definition]\nloglevel = DEBUG\nlogtarget = {folder}/fail2ban.log\nsocket = {folder}/fail2ban.sock\n"
                     "pidfile = {folder}/fail2ban.pid\ndbfile = None\ndbpurgeage = 1d\ndbmaxmatches = 10\n",
    "jail.conf": "[DEFAULT]\nusedns = no\nignoreself = false\n[door]\nenabled = true\nbackend = polling\nfilter = door\n"
                 f"logpath = {{folder}}/door.log\nmaxretry = 2\nfindtime = 600\nbantime = {BAN_S}\n"
                 "action = weir[list=jail, ttl=\"--ttl <bantime>s\", controlctl={controlctl}, options=\"--socket {socket}\"]\n",
    "filter.d/door.conf": "[Definition]\nfailregex = refused <HOST>$\ndatepattern = ^%%Y-%%m-%%d %%H:%%M:%%S\n",
}


class Fail2ban:
    """The server, with one jail; it reads door.log."""

    def __init__(self, session):
        self.session, self.config = session, session.path("fail2ban")
        for name, text in FILES.items():
            write(self.config, name, text.format(folder=session.folder, socket=session.path("controld.sock"),
                                                 controlctl=os.path.join(BUILD, "control/controlctl")))
        os.makedirs(os.path.join(self.config, "action.d"))
        shutil.copy(os.path.join(ROOT, "configs/fail2ban/weir.conf"), os.path.join(self.config, "action.d"))
        write(session.folder, "door.log", "")
        self.client("-x", "start")
        session.at_exit(lambda: self.client("stop") if os.path.exists(session.path("fail2ban.sock")) else None)

    def client(self, *arguments):
        done = subprocess.run(["fail2ban-client", "-c", self.config, "-s", self.session.path("fail2ban.sock"), "-p",
                               self.session.path("fail2ban.pid"), *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"fail2ban-client {' '.join(arguments)}: {done.stdout}{done.stderr}"

    def see_refusals(self, address):
        with open(self.session.path("door.log"), "a", encoding="ascii") as log:
            log.write((time.strftime("%Y-%m-%d %H:%M:%S") + f" refused {address}\n") * 2)

    def errors(self):
        with open(self.session.path("fail2ban.log"), encoding="utf-8") as log:
            return [line for line in log if " ERROR " in line]


@pytest.fixture
def fail2ban(session):
    make_samples(session.folder, flows=100, frames=1000)
    start_loop(session, read_capture(session.path("capture.pcap")))
    session.start_controld(write(session.folder, "jail.yaml", POLICY))
    session.wait_enforced()
    return Fail2ban(session)


def drops(session, address):
    code, out, err = session.controlctl("test", "-q", address)
    assert code in (0, 1), f"test {address} ended with {code}: {out}{err}"
    return code == 0


def a_ban_lasts_until_its_end_or_its_unban(session, fail2ban, address):
    assert not drops(session, address), f"{address} is dropped before it is refused"
    begin = time.time()
    fail2ban.see_refusals(address)
    session.wait(f"the ban of {address}", lambda: drops(session, address))
    entry, = [one for one in session.call("entries", name="jail")["entries"] if one["entry"] == address]
    assert "fail2ban: door" in entry["comment"] and entry["added_by"] == os.geteuid(), entry
    assert begin + BAN_S - 1 <= entry["expires"] <= time.time() + BAN_S, entry
    fail2ban.client("set", "door", "unbanip", address)
    assert not drops(session, address), f"{address} is dropped after fail2ban unbanned it"


def test_what_fail2ban_bans_is_dropped(session, fail2ban):
    for address in ("203.0.113.7", "2001:db8::7"):
        a_ban_lasts_until_its_end_or_its_unban(session, fail2ban, address)
    fail2ban.client("set", "door", "banip", "203.0.113.9")
    session.wait("a ban by hand", lambda: drops(session, "203.0.113.9"))
    fail2ban.client("stop")
    assert not drops(session, "203.0.113.9"), "203.0.113.9 is dropped after fail2ban stopped, which unbans all"
    assert fail2ban.errors() == [], "errors of fail2ban"
    assert (session.stop("dataplane"), session.stop("controld")) == (0, 0), "exit codes of both"
