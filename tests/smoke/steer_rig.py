"""A host whose card is shared by the kernel and a data plane (docs/operate/steering.md), and a client on its wire: the card in
this process's own network namespace, the client in another, a BPF file system of their own at the default place.

The namespaces go with the process, and with them everything made in them.
"""

import ctypes
import json
import os
import shutil
import socket
import struct
import subprocess
import threading
import time

from weir_smoke import BUILD, Memory, Session, check, equal, skip, skips_without_namespaces
from namespaces import CLONE_NEWNET, in_network, mount_bpf, own_mounts
from wires import ip, own_network

BPF_DIR = "/sys/fs/bpf"
CARD, PEER = "card0", "peer0"
HOST4, CLIENT4, ROUTED4 = "10.98.0.2", "10.98.0.1", "203.0.113.0/24"
HOST6, CLIENT6, ROUTED6 = "fd98::2", "fd98::1", "2001:db8:113::/48"
SINK = "forward: sink\nports: [{port: 0}]"
RUNNING = " info running "
ICMP_ECHO = {socket.AF_INET: (socket.IPPROTO_ICMP, 8, 0), socket.AF_INET6: (socket.IPPROTO_ICMPV6, 128, 129)}


class Client:
    """The other end of the wire, in a network namespace that lasts as long as this process."""

    def __init__(self):
        ready = threading.Event()
        self.failure = None
        threading.Thread(target=self._live, args=(ready,), daemon=True).start()
        ready.wait()
        if self.failure:
            skip(f"kernel: no second network namespace: {self.failure}")

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
        """What make() returns, called in the namespace. A socket stays where it was made."""
        return in_network(self.namespace, make)

    def run(self, *command):
        done = subprocess.run(["nsenter", f"--net={self.namespace}", *command], capture_output=True, text=True)
        check(done.returncode == 0, f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def udp(self, family=socket.AF_INET):
        client = self.call(lambda: socket.socket(family, socket.SOCK_DGRAM))
        client.settimeout(5)
        return client

    def ping(self, family, address, seconds=5):
        """Whether the address answers an echo request within so long."""
        protocol, request, reply = ICMP_ECHO[family]
        with self.call(lambda: socket.socket(family, socket.SOCK_RAW, protocol)) as wire:
            number = time.monotonic_ns() & 0xffff
            echo = struct.pack(">BBHHH", request, 0, 0, number, 1)
            if family == socket.AF_INET:  # the kernel writes ICMPv6's checksum itself
                echo = echo[:2] + struct.pack(">H", 0xffff - (request * 256 + number + 1) % 0xffff) + echo[4:]
            wire.sendto(echo, (address, 0))
            deadline = time.monotonic() + seconds
            while (left := deadline - time.monotonic()) > 0:
                wire.settimeout(left)
                try:
                    answer = wire.recv(2048)
                except TimeoutError:
                    return False
                header = (answer[0] & 15) * 4 if family == socket.AF_INET else 0
                if answer[header] == reply and struct.unpack_from(">H", answer, header + 4)[0] == number:
                    return True
        return False

    def forget_neighbours(self):
        self.run("ip", "neigh", "flush", "dev", PEER)


class Echo:
    """A UDP service of the host's kernel: sends back what comes, and counts it."""

    def __init__(self, family, address, port):
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind((address, port))
        self.socket.settimeout(0.1)
        self.received = 0
        self.closing = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.closing = True
        self.thread.join()
        self.socket.close()

    def _serve(self):
        while not self.closing:
            try:
                data, sender = self.socket.recvfrom(1 << 16)
            except TimeoutError:
                continue
            self.received += 1
            self.socket.sendto(data, sender)


def answers(client, address, seconds=5.0, tries=1):
    """Whether one of so many datagrams comes back."""
    for number in range(tries):
        text = f"{time.monotonic_ns()} {number}".encode()
        client.sendto(text, address)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            client.settimeout(left)
            try:
                if client.recv(2048) == text:
                    return True
            except TimeoutError:
                break
    return False


class SharedCard(Session):
    """A session whose data plane shares its one port with the kernel."""

    def __init__(self, program):
        super().__init__(BUILD)
        self.program = os.path.join(BUILD, "bpf/program", program)

    def __enter__(self):
        super().__enter__()
        check(os.path.exists(self.program), f"{self.program} is built")
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
        equal(done.returncode, expect, f"controlctl steer {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def steered(self):
        """Packets by what became of them."""
        return {name: tally["packets"] for name, tally in self.controlctl_steer("--show")["totals"].items()}


def shown():
    """What `ip link` says of the card."""
    return json.loads(subprocess.run(["ip", "-j", "-d", "link", "show", CARD], capture_output=True, text=True,
                                     check=True).stdout)[0]


def attached():
    """Names of the XDP programs on the card."""
    return [shown()["xdp"]["prog"]["name"]] if "xdp" in shown() else []


def make_host():
    """Both ends of the wire, up, with addresses and routes. The client."""
    if os.geteuid() != 0:
        skip("root: interfaces are made by root only")
    for program in ("ip", "nsenter", "ethtool"):
        if not shutil.which(program):
            skip(f"package: no {program}: scripts/setup test installs it")
    own_network()
    with skips_without_namespaces():
        own_mounts()  # what is pinned, nobody else sees
        mount_bpf(BPF_DIR)
    with open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w", encoding="ascii") as file:
        file.write("0")
    with open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w", encoding="ascii") as file:
        file.write("0")
    client = Client()
    one = ("numrxqueues", "1", "numtxqueues", "1")  # rx queue = processor of the sender; one socket reads one queue
    ip("link", "add", CARD, *one, "type", "veth", "peer", "name", PEER, *one)
    ip("link", "set", PEER, "netns", str(client.thread))
    ip("address", "add", f"{HOST4}/24", "dev", CARD)
    ip("address", "add", f"{HOST6}/64", "dev", CARD, "nodad")
    ip("link", "set", CARD, "up")
    ip("link", "set", "lo", "up")
    client.run("ip", "address", "add", f"{CLIENT4}/24", "dev", PEER)
    client.run("ip", "address", "add", f"{CLIENT6}/64", "dev", PEER, "nodad")
    client.run("ip", "link", "set", PEER, "up")
    client.run("ip", "route", "add", ROUTED4, "via", HOST4)
    client.run("ip", "-6", "route", "add", ROUTED6, "via", HOST6)
    return client


def send_udp(client, address, n, payload=b"x" * 32, at_once=32):
    """So many datagrams, no faster than a reader of a small machine reads them."""
    with client.udp(socket.AF_INET6 if ":" in address[0] else socket.AF_INET) as wire:
        for number in range(n):
            wire.sendto(payload, address)
            if number % at_once == at_once - 1:
                time.sleep(0.002)
