"""A fleet on this machine: members of etcd, and nodes, each a controld with a data plane of its own, for tests and figures.

Ends only what it started. Standard library only.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile

import evidence
from namespaces import free_port
from session import PR_SET_PDEATHSIG, Session, SessionError
from until import until

NAME = "edge"
START_SECONDS = 30


class Network:
    """A network namespace that a cable leads to, from a switch in this process's network (namespaces.own_network)."""

    SWITCH, PREFIX = "switch", "10.77.0."

    @classmethod
    def make_switch(cls):
        for command in (("link", "add", cls.SWITCH, "type", "bridge"), ("addr", "add", cls.PREFIX + "1/24", "dev", cls.SWITCH),
                        ("link", "set", cls.SWITCH, "up"), ("link", "set", "lo", "up")):
            subprocess.run(("ip", *command), check=True)

    def __init__(self, number):
        self.address, self.cable = f"{self.PREFIX}{number}", f"cable{number}"
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL, start_new_session=True,
                                       preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        self.path = f"/proc/{self.holder.pid}/ns/net"
        self.command = ["nsenter", f"--net={self.path}"]  # what is started in it
        until("a network", lambda: os.readlink(self.path) != os.readlink("/proc/self/ns/net"), turn=0.001)
        self.run("ip", "link", "set", "lo", "up")
        subprocess.run(("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", str(self.holder.pid)), check=True)
        subprocess.run(("ip", "link", "set", self.cable, "master", self.SWITCH, "up"), check=True)
        self.run("ip", "addr", "add", self.address + "/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def run(self, *command):
        subprocess.run([*self.command, *command], check=True)

    def connect(self, is_connected):
        """The cable is in, or out: what is sent gets nowhere, and nobody is told so."""
        subprocess.run(("ip", "link", "set", self.cable, "up" if is_connected else "down"), check=True)

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Etcd:
    """A cluster of etcd; url(n) is where member n speaks to clients."""

    def __init__(self, members=3, more=(), scheme="http", networks=()):
        """networks: one for each member; else all are on loopback."""
        self.folder = tempfile.mkdtemp(prefix="weir-etcd-")
        self.ports = [free_port() for _ in range(2 * members)]
        self.networks = networks
        self.scheme = scheme
        self.more = list(more)
        self.processes = [None] * members
        self.tokens = 0

    def __enter__(self):
        for member in range(len(self.processes)):
            self.start(member)
        self.wait()
        return self

    def __exit__(self, kind, *_):
        for member in range(len(self.processes)):
            self.kill(member)
        if evidence.is_failure(kind):
            self.keep()
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep(self):
        """As evidence of a failure."""
        evidence.keep_folder(self.folder)

    def url(self, member):
        return f"{self.scheme}://{self.host(member)}:{self.ports[2 * member]}"

    def host(self, member):
        return self.networks[member].address if self.networks else "127.0.0.1"

    def urls(self):
        return [self.url(member) for member in range(len(self.processes))]

    def data(self, member):
        return os.path.join(self.folder, f"m{member}-{self.tokens}")

    def start(self, member, extra=()):
        peer = [f"http://{self.host(one)}:{self.ports[2 * one + 1]}" for one in range(len(self.processes))]
        cluster = ",".join(f"m{one}={url}" for one, url in enumerate(peer))
        is_new = not os.path.isdir(self.data(member))
        command = [*(self.networks[member].command if self.networks else ()), "etcd", "--name", f"m{member}", "--data-dir", self.data(member), "--listen-client-urls", self.url(member),
                   "--advertise-client-urls", self.url(member), "--listen-peer-urls", peer[member],
                   "--initial-advertise-peer-urls", peer[member], "--initial-cluster", cluster,
                   "--initial-cluster-token", f"weir-{self.tokens}", "--initial-cluster-state", "new", "--log-level", "error",
                   "--heartbeat-interval", "100", "--election-timeout", "1000", *self.more, *extra]
        assert is_new or self.processes[member] is None
        with open(os.path.join(self.folder, f"m{member}.log"), "ab") as log:
            self.processes[member] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL))

    def kill(self, member):
        process, self.processes[member] = self.processes[member], None
        if process:
            process.kill()
            process.wait()

    def wait(self, seconds=START_SECONDS):
        """Until the cluster has a leader and takes what is put."""
        until("etcd to come up", lambda: self.ctl("endpoint", "health", check=False).returncode == 0, seconds, SessionError,
              about=lambda: f": {self.log(0)}", turn=0.1)

    def ctl(self, *arguments, members=None, check=True, text=None):
        """text: what it reads."""
        urls = self.urls() if members is None else [self.url(member) for member in members]
        return subprocess.run(["etcdctl", "--endpoints", ",".join(urls), "--command-timeout", "5s", *arguments],
                              env=dict(os.environ, ETCDCTL_API="3"), input=text, capture_output=True, text=True, check=check)

    def log(self, member):
        with open(os.path.join(self.folder, f"m{member}.log"), encoding="utf-8", errors="replace") as file:
            return "\n".join(file.read().splitlines()[-15:])


def node_file(etcd_urls, node, group, fleet="", more=""):
    """The text of the file of a node. fleet: more keys of `fleet`; more: other sections."""
    keys = f"etcd: {json.dumps(list(etcd_urls))}, name: {NAME}, node: {node}, group: {group}"
    return f"version: 1\n{more}fleet: {{{keys}{', ' + fleet if fleet else ''}}}\n"


class Node(Session):
    """controld of one node, and a data plane that it publishes to."""

    def __init__(self, build, etcd, name, group="rest", fleet="", more="", parent=None, network=None):
        super().__init__(build, parent)
        self.has_dataplane = True
        self.network = network  # that it is in; none: this process's
        self.etcd_urls, self.name, self.group, self.fleet, self.more = etcd.urls(), name, group, fleet, more

    def _start(self, name, command):
        return super()._start(name, [*(self.network.command if self.network else ()), *command])

    def start(self, extra=()):
        path = self.path("node.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(node_file(self.etcd_urls, self.name, self.group, self.fleet, self.more))
        self.start_controld(path, targets=self.has_dataplane, extra=extra)


class Operator:
    """Somebody with controlctl: a folder with a policy, and the fleet."""

    def __init__(self, build, etcd, folder):
        self.program = os.path.join(os.path.abspath(build), "control/controlctl")
        self.urls, self.folder = ",".join(etcd.urls()), folder

    def fleet(self, *arguments, expect=0):
        """The answer of `controlctl fleet`."""
        code, answer, error = self.try_fleet(*arguments)
        if code != expect:
            raise SessionError(f"controlctl fleet {' '.join(arguments)} ended with {code}, not {expect}: {error}{answer}")
        return answer

    def try_fleet(self, *arguments):
        done = subprocess.run([self.program, "fleet", *arguments, "--etcd", self.urls, "--name", NAME, "--json"],
                              cwd=self.folder, capture_output=True, text=True, timeout=120)
        evidence.add(f"controlctl fleet {' '.join(arguments)}: {done.returncode} {(done.stderr or done.stdout)[:200].strip()}")
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr

    def nodes(self):
        return {node["node"]: node for node in self.fleet("status")["nodes"]}
