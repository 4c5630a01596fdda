"""Neighbours of `controlctl flowspec`: the real ExaBGP and the real GoBGP, in a folder of their own, on the loopback. Each is a context manager
that announces rules of flowspec_rules.py and tells what it received. Standard library only."""

import ctypes
import json
import os
import shutil
import signal
import subprocess

from flowspec_rules import exabgp, gobgp
from namespaces import free_port
from session import PR_SET_PDEATHSIG, SessionError, tail
from until import until

OURS, THEIRS = 65000, 65001  # AS numbers


def start(command, log, environment=None, **more):
    return subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ, **(environment or {})), start_new_session=True,
                            preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM), **more)


class Peer:
    """program: what it is, by its name in PATH."""

    program = ""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.port = free_port()
        self.process = None

    @classmethod
    def missing(cls):
        return not shutil.which(cls.program)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def log(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, kill=False):
        process, self.process = self.process, None
        if process is None or process.poll() is not None:
            return
        process.kill() if kill else process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wait(self, what, test, seconds=60):
        def ended():
            return "" if self.process.poll() is None else f"{self.program} ended with {self.process.returncode}:\n{tail(self.log())}\n"

        until(what, test, seconds, SessionError, ended, lambda: f":\n{tail(self.log())}", 0.05)


class ExaBgp(Peer):
    """It connects to us; its API is a process of ours, which hands lines on and keeps what it is told."""

    program = "exabgp"
    API = """#!/bin/sh
exec 3<&0  # in the background it would be /dev/null
cat <&3 >'{told}' &
exec cat '{orders}'
"""

    def options(self):
        return ["--peer", "127.0.0.1", "--listen", f"127.0.0.1:{self.port}", "--as", str(OURS), "--peer-as", str(THEIRS)]

    def start(self):
        orders, told = self.path("orders"), self.path("told")
        if not os.path.exists(orders):
            os.mkfifo(orders)
        self.told_path = told
        api = self.write("api", self.API.format(told=told, orders=orders))
        os.chmod(api, 0o755)
        configuration = self.write("exabgp.conf", f"""process api {{
  run {api};
  encoder json;
}}
neighbor 127.0.0.1 {{
  router-id 192.0.2.1;
  local-address 127.0.0.1;
  local-as {THEIRS};
  peer-as {OURS};
  connect {self.port};
  family {{
    ipv4 flow;
    ipv6 flow;
  }}
  api {{
    processes [ api ];
    receive {{
      parsed;
      update;
    }}
  }}
}}
""")
        environment = {"exabgp.daemon.drop": "false", "exabgp.daemon.user": "root", "exabgp.api.cli": "false", "exabgp.api.ack": "false",
                       "exabgp.log.destination": "stdout", "exabgp.log.level": "WARNING"}
        with open(self.path("log"), "ab") as log:
            self.process = start(["exabgp", configuration], log, environment)
        self.orders = None
        # A reader is there when the API's process runs.
        self.wait("ExaBGP's API", self.open_orders)

    def open_orders(self):
        try:
            self.orders = os.fdopen(os.open(self.path("orders"), os.O_WRONLY | os.O_NONBLOCK), "w")
        except OSError:
            return False
        os.set_blocking(self.orders.fileno(), True)
        return True

    def stop(self, kill=False):
        super().stop(kill)
        if self.orders:
            self.orders.close()

    def order(self, lines):
        self.orders.write("".join(line + "\n" for line in lines))
        self.orders.flush()

    def announce(self, rules, action="discard"):
        self.order(f"announce flow route {exabgp(rule)} {action}" for rule in rules)

    def withdraw(self, rules):
        self.order(f"withdraw flow route {exabgp(rule)} discard" for rule in rules)

    def received(self):
        """The rules that it has of us now, as its own texts."""
        rules = set()
        with open(self.told_path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    update = json.loads(line)["neighbor"]["message"]["update"]
                except (ValueError, KeyError, TypeError):
                    continue
                for families, change in ((update.get("withdraw", {}), rules.discard), (update.get("announce", {}), rules.add)):
                    for family in families.values():
                        for flows in family.values() if isinstance(family, dict) else [family]:
                            for flow in flows:
                                change(flow["string"] if isinstance(flow, dict) else flow)
        return rules


class GoBgp(Peer):
    """We connect to it."""

    program = "gobgpd"

    def options(self):
        return ["--peer", f"127.0.0.1:{self.port}", "--as", str(OURS), "--peer-as", str(THEIRS)]

    def start(self):
        self.api = free_port()
        configuration = self.write("gobgpd.toml", f"""[global.config]
  as = {THEIRS}
  router-id = "192.0.2.2"
  port = {self.port}
  local-address-list = ["127.0.0.1"]
[[neighbors]]
  [neighbors.config]
    neighbor-address = "127.0.0.1"
    peer-as = {OURS}
  [neighbors.transport.config]
    passive-mode = true
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv4-flowspec"
  [[neighbors.afi-safis]]
    [neighbors.afi-safis.config]
      afi-safi-name = "ipv6-flowspec"
""")
        with open(self.path("log"), "ab") as log:
            self.process = start(["gobgpd", "-f", configuration, "--api-hosts", f"127.0.0.1:{self.api}", "--pprof-disable"], log)
        self.wait("gobgpd", lambda: self.ask("global").returncode == 0)

    def ask(self, *words):
        return subprocess.run(["gobgp", "-u", "127.0.0.1", "-p", str(self.api), *words], capture_output=True, text=True, timeout=60)

    def change(self, verb, rules, action):
        for rule in rules:
            done = self.ask("global", "rib", verb, "-a", f"ipv{rule.family}-flowspec", "match", *gobgp(rule), "then", *action.split())
            if done.returncode != 0 or "rror" in done.stdout + done.stderr:
                raise SessionError(f"gobgp {verb} {' '.join(gobgp(rule))}: {done.stdout}{done.stderr}")

    def announce(self, rules, action="discard"):
        self.change("add", rules, action)

    def withdraw(self, rules):
        self.change("del", rules, "discard")

    def received(self):
        rules = set()
        for family in (4, 6):
            done = self.ask("global", "rib", "-a", f"ipv{family}-flowspec", "-j")
            if done.returncode != 0:
                raise SessionError(f"gobgp global rib: {done.stderr}")
            for paths in json.loads(done.stdout or "{}").values():
                if any(path.get("source-id", path.get("neighbor-ip", "")) not in ("", "<nil>") for path in paths):
                    rules.add(json.dumps(paths[0]["nlri"], sort_keys=True))
        return rules


PEERS = (ExaBgp, GoBgp)
