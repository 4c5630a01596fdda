"""Network interfaces for tests of ports: a network namespace of the test's own, raw sockets, a policy and its frames.

The namespace goes with the process, and with it everything made in it.
"""

import contextlib
import os
import select
import socket
import struct
import subprocess
import time

from weir_smoke import check, flow_addresses, skips_without_namespaces, write  # first: it knows where the others are
import namespaces  # noqa: E402

SO_RCVBUFFORCE = 33        # socket(7)
RECEIVE_BUFFER = 64 << 20
OUTGOING = 4               # packet(7): what the interface itself sent
ALL_PROTOCOLS = 3          # ETH_P_ALL
PATIENCE_SECONDS = 60
AT_ONCE = 32               # frames sent before they are waited for: less than any ring holds

BLOCKED = ("192.0.2.0/25", "2001:db8:bad::/48")
POLICY = f"""\
version: 1
lists:
  - name: blocked
    action: drop
    match: either
    entries: ["{BLOCKED[0]}", "{BLOCKED[1]}"]
"""


def own_network():
    """The test sees only the interfaces made here, or skips."""
    with skips_without_namespaces():
        namespaces.own_network()


@contextlib.contextmanager
def own_bpf_file_system(folder):
    """In a mount namespace of the test's own: what is pinned goes with it."""
    os.makedirs(folder)
    with skips_without_namespaces():
        namespaces.own_mounts()
        namespaces.mount_bpf(folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False)


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    check(done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}")


def make_veth(near, far, mtu=1500):
    """One queue each way: another would have no reader (rx queue = processor of the sender)."""
    one = ["numrxqueues", "1", "numtxqueues", "1"]
    ip("link", "add", near, "mtu", str(mtu), *one, "type", "veth", "peer", "name", far, "mtu", str(mtu), *one)
    for name in (near, far):
        # NAPI on the receiving end: without it what XDP sends there is lost.
        subprocess.run(["ethtool", "-K", name, "gro", "on"], capture_output=True)
        ip("link", "set", name, "up")


class Wire:
    """What is on an interface, seen from the kernel's side."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        self.socket.bind((name, ALL_PROTOCOLS))

    def send(self, frame):
        self.socket.send(frame)

    def receive(self, seconds):
        """The next frame that came in; None when there is none for so long."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                return None
            frame, address = self.socket.recvfrom(1 << 16)
            if address[2] != OUTGOING:
                return frame

    def close(self):
        self.socket.close()


def ethernet(payload, kind):
    return bytes.fromhex("020000000002020000000001") + struct.pack(">H", kind) + payload


def udp_frame(number, blocked, payload_bytes):
    """Odd numbers are IPv6. Its number is in the payload, so that every frame is another."""
    payload = struct.pack(">HHHHQ", 1024 + number % 5000, 53, 16 + payload_bytes, 0, number) + bytes(payload_bytes)
    if number % 2:
        source = socket.inet_pton(socket.AF_INET6, f"2001:db8:{'bad' if blocked else 'a'}::{number % 65536:x}")
        return ethernet(struct.pack(">IHBB", 6 << 28, len(payload), 17, 64) + source
                        + socket.inet_pton(socket.AF_INET6, "2001:db8:a::1") + payload, 0x86dd)
    source = bytes([192, 0, 2, number // 2 % 128 + (0 if blocked else 128)])
    return ethernet(struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, 17, 0) + source
                    + bytes([198, 51, 100, 1]) + payload, 0x0800)


def make_frames(n, longest=1514):
    """[(frame, blocked)]: of every length up to the longest, every third blocked."""
    room = longest - (14 + 40 + 16)
    return [(udp_frame(number, number % 3 == 0, number * 97 % (room + 1)), number % 3 == 0) for number in range(n)]


def wait_until_joined(near, far, flipped=False):
    """Until frames get from one wire to the other. What is still on its way is taken off. flipped: those that make_frames()
    calls blocked pass."""
    probe = udp_frame(1 << 40, flipped, 0)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            near.send(probe)
        except OSError:  # the interface is down
            pass
        if far.receive(0.5) is not None:
            while far.receive(0.5) is not None:
                pass
            return
    check(False, f"nothing got through in {PATIENCE_SECONDS} s")


def exchange(near, far, frames, what):
    """Sends the frames into one wire; exactly those that are not blocked must come out of the other, those of a flow in
    their order."""
    for start in range(0, len(frames), AT_ONCE):
        some = frames[start:start + AT_ONCE]
        for frame, _ in some:
            near.send(frame)
        expected = [frame for frame, blocked in some if not blocked]
        while expected:
            found = far.receive(PATIENCE_SECONDS)
            first = expected[0]
            check(found is not None, f"{what}: a frame of {len(first)} bytes is lost: {first[:80].hex()}")
            check(found in expected, f"{what}: {len(found)} bytes came that were not sent: {found[:80].hex()}")
            place = expected.index(found)
            flow = flow_addresses(found)
            check(all(flow_addresses(frame) != flow for frame in expected[:place]),
                  f"{what}: a frame of {len(found)} bytes overtook another of its flow: {found[:80].hex()}")
            del expected[place]
    surplus = far.receive(0.2)
    check(surplus is None, f"{what}: a frame too many: {surplus and surplus.hex()[:160]}")


def write_policy(session):
    return write(session.folder, "weir.yaml", POLICY)
