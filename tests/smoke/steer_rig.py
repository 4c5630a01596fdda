"""A host whose card is shared by the kernel and a data plane (docs/operate/steering.md), and a client on its wire: the card in
this test's network namespace, the client in another.
"""

import contextlib
import ctypes
import json
import os
import select
import socket
import struct
import subprocess
import threading
import time

import pytest

from namespaces import CLONE_NEWNET, in_network
from until import until
from weir_smoke import BUILD, Memory, Session
from wires import ip

BPF_DIR = "/sys/fs/bpf"
NEEDED = ("ip", "nsenter", "ethtool")
CARD, PEER = "card0", "peer0"
HOST4, CLIENT4, ROUTED4 = "10.98.0.2", "10.98.0.1", "203.0.113.0/24"
HOST6, CLIENT6, ROUTED6 = "fd98::2", "fd98::1", "2001:db8:113::/48"
ECHO4, ECHO6 = (HOST4, 7000), (HOST6, 7000)
SINK = "forward: sink\nports: [{port: 0}]"
RUNNING = " info running "
ICMP_ECHO = {socket.AF_INET: (socket.IPPROTO_ICMP, 8, 0), socket.AF_INET6: (socket.IPPROTO_ICMPV6, 128, 129)}
BATCH = 32  # datagrams of send_udp() at once
AHEAD = 96  # datagrams of send_udp() that are under way before the next batch: with it, less than a ring holds


class Client:
    """The other end of the wire, in a network namespace that lasts as long as this process."""

    def __init__(self):
        ready = threading.Event()
        self.failure = None
        threading.Thread(target=self._live, args=(ready,), daemon=True).start()
        ready.wait()
        if self.failure:
            pytest.skip(f"kernel: no second network namespace: {self.failure}")

    def _live(self, ready):
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
            self.failure = os.strerror(ctypes.get_errno())
        self.thread = threading.get_native_id()
        ready.set()
        threading.Event().wait()

    @property
    def namespace(self):
        return f"/proc/{os.getpid()}/task/{self.thread}/ns/net"

    def call(self, make):
        """Calls make() in the namespace and returns its value. A socket stays where it was made."""
        return in_network(self.namespace, make)

    def run(self, *command):
        done = subprocess.run(["nsenter", f"--net={self.namespace}", *command], capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def udp(self, family=socket.AF_INET):
        client = self.call(lambda: socket.socket(family, socket.SOCK_DGRAM))
        client.settimeout(1)
        return client

    def dial(self, listener):
        """(the client's end, the host's end) of a connection to the listener."""
        dialled = self.call(lambda: socket.create_connection(listener.getsockname(), timeout=20))
        accepted, _ = listener.accept()
        accepted.settimeout(20)
        return dialled, accepted

    def forget_neighbours(self):
        self.run("ip", "neigh", "flush", "dev", PEER)


class Ping:
    """An echo request of the client."""

    def __init__(self, client, family, address):
        self.family, self.number = family, time.monotonic_ns() & 0xffff
        protocol, request, self.reply = ICMP_ECHO[family]
        echo = struct.pack(">BBHHH", request, 0, 0, self.number, 1)
        if family == socket.AF_INET:  # the kernel writes ICMPv6's checksum itself
            echo = echo[:2] + struct.pack(">H", 0xffff - (request * 256 + self.number + 1) % 0xffff) + echo[4:]
        self.wire = client.call(lambda: socket.socket(family, socket.SOCK_RAW, protocol))
        self.wire.sendto(echo, (address, 0))

    def is_answered(self):
        """Whether the reply is there. Does not wait for it."""
        while select.select([self.wire], [], [], 0)[0]:
            answer = self.wire.recv(2048)
            header = (answer[0] & 15) * 4 if self.family == socket.AF_INET else 0
            if answer[header] == self.reply and struct.unpack_from(">H", answer, header + 4)[0] == self.number:
                return True
        return False


class Echo:
    """A UDP service of the host's kernel: sends back what comes, and counts it."""

    def __init__(self, address, port=7000, family=socket.AF_INET):
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind((address, port))
        self.received = 0
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.socket.sendto(b"", self.socket.getsockname())  # the end
        self.thread.join()
        self.socket.close()

    def _serve(self):
        while True:
            data, sender = self.socket.recvfrom(1 << 16)
            if not data:
                return
            self.received += 1
            self.socket.sendto(data, sender)


def wait_answer(wire, address):
    """Asks until the address answers. Returns all datagrams that came back until then."""
    came = []

    def ask():
        text = os.urandom(8)
        wire.sendto(text, address)
        with contextlib.suppress(TimeoutError):
            while text not in came:
                came.append(wire.recv(2048))
        return text in came

    until(f"an answer from {address[0]} port {address[1]}", ask)
    return came


def answers(wire, address, marker=ECHO4):
    """Whether a datagram comes back. Another one, sent later to `marker`, shows when it would have: both by one way, to one Echo."""
    text = os.urandom(8)
    wire.sendto(text, address)
    return text in wait_answer(wire, marker)


def send_udp(client, addresses, arrived, rounds, port=53):
    """Sends BATCH datagrams to each address in each of the rounds. Returns how many each address was sent: arrived(), a counter of
    datagrams to one of them, has grown by that."""
    before, sent = arrived(), 0
    with client.udp(socket.AF_INET6 if ":" in addresses[0] else socket.AF_INET) as wire:
        for _ in rounds:
            for _ in range(BATCH):
                for address in addresses:
                    wire.sendto(b"x" * 32, (address, port))
            sent += BATCH
            until("datagrams under way", lambda: arrived() - before >= sent - AHEAD, turn=0.002)
        until("the last datagrams", lambda: arrived() - before >= sent)
    return sent


class SharedCard(Session):
    """A session whose data plane shares its one port with the kernel."""

    def __init__(self, program):
        super().__init__(BUILD)
        self.program = os.path.join(BUILD, "bpf/program", program)

    def __enter__(self):
        super().__enter__()
        assert os.path.exists(self.program), f"{self.program} is not built"
        return self

    def start_plane(self, config=SINK, vdevs=(), extra=()):
        before = self.log("dataplane").count(RUNNING) if os.path.exists(self.path("dataplane.log")) else 0
        self.start_dataplane(config, [f"net_af_xdp0,iface={CARD},xdp_prog={self.program}", *vdevs], 1,
                             Memory(8192, 2048 - 128), extra=extra)
        self.wait("the ports", lambda: self.log("dataplane").count(RUNNING) > before)

    def steer(self, rules, default="kernel", link="kernel"):
        """Applies rules, of which each is the inside of a YAML map."""
        lines = "".join(f"  - {{{rule}}}\n" for rule in rules)
        with open(self.path("steer.yaml"), "w", encoding="ascii") as file:
            file.write(f"version: 1\ndefault: {default}\nlink: {link}\nrules:\n{lines}")
        return self.controlctl_steer(self.path("steer.yaml"))

    def controlctl_steer(self, *arguments, expect=0):
        done = subprocess.run([os.path.join(self.build, "control/controlctl"), "steer", *arguments, "--json"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == expect, f"controlctl steer {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def steered(self):
        """{name of a counter of the program: packets}"""
        return {name: tally["packets"] for name, tally in self.controlctl_steer("--show")["totals"].items()}


def shown():
    """The card, as `ip link` shows it."""
    return json.loads(subprocess.run(["ip", "-j", "-d", "link", "show", CARD], capture_output=True, text=True,
                                     check=True).stdout)[0]


def attached():
    """Names of the XDP programs on the card."""
    return [shown()["xdp"]["prog"]["name"]] if "xdp" in shown() else []


def make_host():
    """Both ends of the wire, up, with addresses and routes. Returns the client."""
    client = Client()
    one = ("numrxqueues", "1", "numtxqueues", "1")  # rx queue = processor of the sender; one socket reads one queue
    ip("link", "add", CARD, *one, "type", "veth", "peer", "name", PEER, *one)
    ip("link", "set", PEER, "netns", str(client.thread))
    ip("address", "add", f"{HOST4}/24", "dev", CARD)
    ip("address", "add", f"{HOST6}/64", "dev", CARD, "nodad")
    ip("link", "set", CARD, "up")
    client.run("ip", "address", "add", f"{CLIENT4}/24", "dev", PEER)
    client.run("ip", "address", "add", f"{CLIENT6}/64", "dev", PEER, "nodad")
    client.run("ip", "link", "set", PEER, "up")
    client.run("ip", "route", "add", ROUTED4, "via", HOST4)
    client.run("ip", "-6", "route", "add", ROUTED6, "via", HOST6)
    return client
