"""Host mode for real: a data plane between a veth that plays the network card and a tap with the host's addresses, in
two network namespaces, and TCP that crosses it while the policy is reloaded. docs/operate/host-mode.md
"""

import hashlib
import ipaddress
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import threading
import time

import sys
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from namespaces import in_network
from session import Memory, Session, SessionError

NEEDED = ("ip", "nft", "nsenter", "ethtool")
CARD, TAP, PEER = "card0", "host0", "peer0"          # interfaces: in the host's namespace, and the client's
CLIENT4, HOST4 = "10.99.0.1", "10.99.0.2"
CLIENT6, HOST6 = "fd99::1", "fd99::2"  # nodad: an address that is still being checked cannot be bound
AF_PACKET = "net_af_packet0,iface={card},framecnt=4096,qdisc_bypass=1"
AF_XDP = "net_af_xdp0,iface={card}"
NET_TAP = "net_tap0,iface={tap},mac={mac}"
VIRTIO_USER = "net_virtio_user0,path=/dev/vhost-net,queue_size=1024,iface={tap},mac={mac}"
FRAME_BYTES = 2048                                   # of an af_packet ring: it must fit the mbufs
RUNNING = " info running "
CHUNK = 1 << 16
STALL_SECONDS = 1.0       # what figures count
BIG_LIST = 100000
CONFIG = "forward: pair\nports: [{port: 0}, {port: 1}]"
SHUT = ("add table netdev weir; "
        "add chain netdev weir shut {{ type filter hook ingress device {card} priority 0; policy drop; }}")
POLICY = """\
version: 1
policy: {{default: pass}}
lists:
  - {{name: {name}, action: drop, match: src, file: {name}.txt}}
"""


def missing():
    """Why it cannot run on this machine, or None."""
    if os.geteuid() != 0:
        return "root: network namespaces need it"
    absent = [program for program in NEEDED if not shutil.which(program)]
    if absent:
        return f"package: no {', '.join(absent)}: scripts/setup test installs them"
    if not os.path.exists("/dev/net/tun"):
        return "kernel: no /dev/net/tun: this kernel has no tap interfaces"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        if all(line.split()[4] != "/" for line in file):
            return "kernel: / is no mount point, as in a chroot: ip-netns(8) does nothing there"
    return None


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    if done.returncode != 0:
        raise SessionError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def in_namespace(namespace, make):
    """What make() returns, called in the namespace of that name."""
    return in_network(f"/run/netns/{namespace}", make)


def run_in(namespace, *command):
    """Not `ip netns exec`: it needs a root folder that is a mount point."""
    return run("nsenter", f"--net=/run/netns/{namespace}", *command)


class HostSession(Session):
    """A session whose data plane stands in front of a host of its own, with a client on the wire."""

    def __init__(self, build, card=AF_PACKET, kernel_side=NET_TAP, tap_made_before=False, settings=""):
        super().__init__(build)
        self.card, self.kernel_side, self.tap_made_before, self.settings = card, kernel_side, tap_made_before, settings
        self.host, self.client = (f"weir-{part}-{os.getpid()}" for part in ("host", "client"))

    def __enter__(self):
        super().__enter__()
        try:
            self.wire()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *details):
        super().__exit__(*details)
        for namespace in (self.host, self.client):
            subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL, check=False)

    def _start(self, name, command):
        inside = ["nsenter", f"--net=/run/netns/{self.host}"] if name == "dataplane" else []
        return super()._start(name, inside + command)

    def wire(self):
        """The card and its wire. The commands are those of docs/operate/host-mode.md."""
        for namespace in (self.host, self.client):
            run("ip", "netns", "add", namespace)
        single = ("numrxqueues", "1", "numtxqueues", "1")
        run("ip", "link", "add", CARD, "netns", self.host, *single, "type", "veth", "peer", "name", PEER, "netns",
            self.client, *single)
        # What leaves a veth was on no wire: segments are not cut, checksums not written. A real sender's card does both.
        run_in(self.client, "ethtool", "-K", PEER, "tx", "off", "tso", "off", "gso", "off")
        run_in(self.host, "ethtool", "-K", CARD, "gro", "off")
        run_in(self.host, "sysctl", "-qw", f"net.ipv6.conf.{CARD}.disable_ipv6=1")
        # The kernel's own stack must not see what the data plane is still to judge.
        run_in(self.host, "nft", SHUT.format(card=CARD))
        run("ip", "-n", self.host, "link", "set", CARD, "up")
        self.address(self.client, PEER, CLIENT4, CLIENT6)
        run("ip", "-n", self.client, "link", "set", PEER, "up")
        self.mac = json.loads(run("ip", "-n", self.host, "-j", "link", "show", CARD))[0]["address"]
        if self.tap_made_before:
            run("ip", "-n", self.host, "tuntap", "add", "dev", TAP, "mode", "tap", "multi_queue")
            self.address_tap()

    @staticmethod
    def address(namespace, interface, v4, v6):
        run("ip", "-n", namespace, "address", "add", f"{v4}/24", "dev", interface)
        run("ip", "-n", namespace, "address", "add", f"{v6}/64", "dev", interface, "nodad")

    def address_tap(self):
        run("ip", "-n", self.host, "link", "set", TAP, "address", self.mac)
        self.address(self.host, TAP, HOST4, HOST6)
        run("ip", "-n", self.host, "link", "set", TAP, "up")

    def start_pair(self):
        """The data plane, and the host's addresses on the tap."""
        before = self.log("dataplane").count(RUNNING) if os.path.exists(self.path("dataplane.log")) else 0
        ports = [port.format(card=CARD, tap=TAP, mac=self.mac) for port in (self.card, self.kernel_side)]
        self.start_dataplane(f"{CONFIG}\n{self.settings}", ports, 1, Memory(8192, FRAME_BYTES), extra=())
        self.wait("the ports", lambda: self.log("dataplane").count(RUNNING) > before)
        if not self.tap_made_before:
            self.address_tap()

    def enforce(self, name):
        """controld with the policy of that name, until it is enforced."""
        self.write_policy(name)
        self.start_controld(self.path("policy.yaml"))
        self.wait_enforced()

    def write_policy(self, name):
        """Puts policy.yaml in place in one step, as an operator should."""
        with open(self.path("next.yaml"), "w", encoding="ascii") as file:
            file.write(POLICY.format(name=name))
        os.replace(self.path("next.yaml"), self.path("policy.yaml"))

    def reload(self):
        answer = self.call("reload")
        if not answer.get("ok"):
            raise SessionError(f"reload failed: {answer}")

    def listen(self, family, address):
        return in_namespace(self.host, lambda: socket.create_server((address, 0), family=family))

    def connect(self, listener, timeout=30):
        """(the client's end, the host's end) of a connection to the listener."""
        def dial():
            client = socket.socket(listener.family, socket.SOCK_STREAM)
            client.settimeout(timeout)
            client.connect(listener.getsockname()[:2])
            return client

        client = in_namespace(self.client, dial)
        listener.settimeout(timeout)
        return client, listener.accept()[0]


def write_lists(session):
    """small and big name others, peer names the client; 10/8 and fd99::/16 are left out of the random ones."""
    random.seed(7)
    addresses = set()
    while len(addresses) < BIG_LIST:
        number = random.getrandbits(32)
        if 11 <= number >> 24 < 224:
            addresses.add(number)
    lines = [str(ipaddress.ip_address(number)) for number in sorted(addresses)]
    lines += [f"2001:db8:{number:x}::/48" for number in range(1000)]
    for name, entries in (("small", lines[:100]), ("big", lines), ("peer", [CLIENT4, CLIENT6])):
        with open(session.path(name + ".txt"), "w", encoding="ascii") as file:
            file.write("\n".join(entries) + "\n")


# Linux struct tcp_info (include/uapi/linux/tcp.h): 8 bytes, then 32-bit words; tcpi_total_retrans is the 24th.
TCP_INFO = struct.Struct("=8B24I")


def retransmits(connection):
    return TCP_INFO.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size))[8 + 23]


class Stream:
    """A sender that always has data, and a receiver that notes how long it ever waited for some."""

    def __init__(self, sender, receiver):
        self.sender, self.receiver = sender, receiver
        self.sent = self.received = 0
        self.longest_gap_ms = 0.0
        self.gaps_above_stall = 0
        self.error = None
        self.digests = [hashlib.blake2b(), hashlib.blake2b()]
        self.stopping = threading.Event()
        for connection in (sender, receiver):
            connection.settimeout(60)
        self.threads = [threading.Thread(target=self.guard, args=(work,)) for work in (self.send, self.receive)]
        for thread in self.threads:
            thread.start()

    def guard(self, work):
        try:
            work()
        except OSError as error:
            self.error = f"{work.__name__}: {error}"

    def send(self):
        numbers = random.Random(self.sender.fileno())
        chunks = [numbers.randbytes(CHUNK) for _ in range(16)]
        while not self.stopping.is_set():
            chunk = chunks[self.sent // CHUNK % len(chunks)]
            self.sender.sendall(chunk)
            self.digests[0].update(chunk)
            self.sent += len(chunk)
        self.sender.shutdown(socket.SHUT_WR)

    def receive(self):
        last = time.monotonic()
        while part := self.receiver.recv(CHUNK):
            now = time.monotonic()
            self.longest_gap_ms = max(self.longest_gap_ms, (now - last) * 1e3)
            self.gaps_above_stall += now - last > STALL_SECONDS
            last = now
            self.digests[1].update(part)
            self.received += len(part)

    def finish(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        result = {"sent": self.sent, "received": self.received, "error": self.error,
                  "same_bytes": self.digests[0].digest() == self.digests[1].digest(),
                  "longest_gap_ms": round(self.longest_gap_ms, 1), "stalls": self.gaps_above_stall,
                  "retransmits": retransmits(self.sender)}
        self.sender.close()
        self.receiver.close()
        return result


def stream_through_reloads(session, reloads):
    """An upload over IPv4 and a download over IPv6 while `reloads` reloads alternate two policies. What each found."""
    streams = {}
    with session.listen(socket.AF_INET, HOST4) as v4, session.listen(socket.AF_INET6, HOST6) as v6:
        client, host = session.connect(v4)
        streams["upload"] = Stream(client, host)
        client, host = session.connect(v6)
        streams["download"] = Stream(host, client)
    try:
        for number in range(reloads):
            session.write_policy("small" if number % 2 else "big")
            session.reload()
    finally:
        results = {name: stream.finish() for name, stream in streams.items()}
    return results


def measure_host_mode(build, reloads=100, **options):
    """For figures: the streams, and over both `reloads`, `longest_gap_ms`, `stalls`, `bytes`, `retransmits`."""
    with HostSession(build, **options) as session:
        write_lists(session)
        session.start_pair()
        session.enforce("small")
        streams = stream_through_reloads(session, reloads)
    ends = list(streams.values())
    return {"reloads": reloads, "streams": streams, "longest_gap_ms": max(end["longest_gap_ms"] for end in ends),
            **{name: sum(end[key] for end in ends) for name, key in
               (("stalls", "stalls"), ("bytes", "received"), ("retransmits", "retransmits"))}}


if __name__ == "__main__":
    import sys
    if reason := missing():
        sys.exit(reason)
    print(json.dumps(measure_host_mode(sys.argv[1] if len(sys.argv) > 1 else "build"), indent=2))
