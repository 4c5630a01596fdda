"""Network interfaces for tests of ports: raw sockets, a policy and its frames. The interfaces end with the test's process."""

import contextlib
import itertools
import os
import select
import socket
import struct
import subprocess

import namespaces
from until import until
from weir_smoke import flow_addresses, write

SO_RCVBUFFORCE = 33        # socket(7)
RECEIVE_BUFFER = 64 << 20
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23  # packet(7): without frames that the interface itself sent
ALL_PROTOCOLS = 3          # ETH_P_ALL
PATIENCE_SECONDS = 60
AT_ONCE = 32               # frames sent before they are waited for: less than any ring holds
marks = itertools.count(1 << 40)  # numbers of markers; those of other frames are smaller

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
    """From here on, the test has only the interfaces that it makes, and the kernel sends nothing of its own on them."""
    namespaces.own_network()


@contextlib.contextmanager
def own_bpf_file_system(folder):
    os.makedirs(folder)
    namespaces.mount_bpf(folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False)


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def make_veth(near, far, mtu=1500):
    """One queue each way: another would have no reader (rx queue = processor of the sender)."""
    one = ["numrxqueues", "1", "numtxqueues", "1"]
    ip("link", "add", near, "mtu", str(mtu), *one, "type", "veth", "peer", "name", far, "mtu", str(mtu), *one)
    for name in (near, far):
        # NAPI on the receiving end: without it what XDP sends there is lost.
        subprocess.run(["ethtool", "-K", name, "gro", "on"], capture_output=True)
        ip("link", "set", name, "up")


class Wire:
    """Frames on an interface, from the kernel's side."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.bind((name, ALL_PROTOCOLS))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, frame):
        self.socket.send(frame)

    def receive(self, seconds=PATIENCE_SECONDS):
        """The next frame that came in; None after so many seconds without one."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return None
        return self.socket.recv(1 << 16)

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


def marked(frame):
    """The frame with a number in its payload that no other frame has. Its flow stays the same."""
    at = 14 + (40 if frame[12:14] == b"\x86\xdd" else 20) + 8  # as udp_frame() puts it
    return frame[:at] + struct.pack(">Q", next(marks)) + frame[at + 8:]


def wait_until_joined(near, far, left=()):
    """Until frames get from one wire to the other, and none that was sent before is under way. left: frames that were sent before
    and may still come. Any other frame is a failure: an exchange() before has sent it twice, say."""
    sent = []

    def comes():
        sent.append(marked(udp_frame(0, False, 0)))
        with contextlib.suppress(OSError):  # the interface is down
            near.send(sent[-1])
        while (found := far.receive(0.1)) is not None:
            assert found in sent or found in left, f"a frame of {len(found)} bytes came that should not: {found[:80].hex()}"
            if found in sent:
                is_last = found == sent[-1]
                sent.remove(found)
                if is_last:
                    return True
        return False

    until("a frame to get through", comes, PATIENCE_SECONDS)


def exchange(near, far, frames, what):
    """Sends the frames into one wire, and a marker. Exactly those that are not blocked come out of the other, those of a flow in
    their order, and nothing else before the marker. Returns how many frames it sent, with the marker, which is not blocked."""
    marker = marked(next(frame for frame, blocked in reversed(frames) if not blocked))
    batches = [frames[start:start + AT_ONCE] for start in range(0, len(frames), AT_ONCE)]
    for batch in (*batches, [(marker, False)]):
        for frame, _ in batch:
            near.send(frame)
        expected = [frame for frame, blocked in batch if not blocked]
        while expected:
            found = far.receive()
            first = expected[0]
            assert found is not None, f"{what}: a frame of {len(first)} bytes is lost: {first[:80].hex()}"
            assert found in expected, f"{what}: a frame of {len(found)} bytes came that should not: {found[:80].hex()}"
            place = expected.index(found)
            flow = flow_addresses(found)
            assert all(flow_addresses(frame) != flow for frame in expected[:place]), (
                f"{what}: a frame of {len(found)} bytes overtook another of its flow: {found[:80].hex()}")
            del expected[place]
    return len(frames) + 1


def write_policy(session):
    return write(session.folder, "weir.yaml", POLICY)
