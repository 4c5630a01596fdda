"""Frames of the rates of ports: UDP in IPv4 or IPv6, with the VLAN tags and of the size that a kind of traffic has.

A flow is (source, destination, source port, destination port); addresses are numbers. Standard library only.
"""

import struct

from capture import Capture, write_capture

UDP = 17
FRAME_BYTES = 60  # 64 with the FCS, which a capture has not
IMIX = (60,) * 7 + (566,) * 4 + (1514,)  # without FCS
MACS = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02"
IPV4, IPV6, CUSTOMER_TAG, SERVICE_TAG = b"\x08\0", b"\x86\xdd", b"\x81\0", b"\x88\xa8"
V6_HEADERS = 14 + 40 + 8  # of the smallest IPv6 frame: two bytes more than FRAME_BYTES
# VLANs of a trunk: many enough that no two frames in a row have the same tag.
VLANS = range(100, 164)


def udp_bytes(sport, dport, packet_bytes):
    """A UDP header without a checksum, and zeros."""
    return struct.pack(">HHHH", sport, dport, packet_bytes, 0) + bytes(packet_bytes - 8)


def ipv4_packet(flow, packet_bytes):
    """IPv4 with its checksum, UDP without one."""
    source, destination, sport, dport = flow
    head = struct.pack(">BBHHHBBHII", 0x45, 0, packet_bytes, 1, 0, 64, UDP, 0, source, destination)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xffff) + (total >> 16)
    total = (total & 0xffff) + (total >> 16)
    return head[:10] + struct.pack(">H", ~total & 0xffff) + head[12:] + udp_bytes(sport, dport, packet_bytes - 20)


def ipv6_packet(flow, packet_bytes):
    source, destination, sport, dport = flow
    head = struct.pack(">IHBB", 6 << 28, packet_bytes - 40, UDP, 64)
    return (head + source.to_bytes(16, "big") + destination.to_bytes(16, "big") +
            udp_bytes(sport, dport, packet_bytes - 40))


def udp_frame(source, destination, sport, dport, frame_bytes=FRAME_BYTES, tags=b""):
    """IPv4 behind Ethernet and these tags (each 4 bytes, type first), so many bytes in all."""
    return MACS + tags + IPV4 + ipv4_packet((source, destination, sport, dport), frame_bytes - 14 - len(tags))


def tag(kind, rng):
    return kind + struct.pack(">H", rng.choice(VLANS))


# Kinds of traffic: (flow, rng) -> frame.
KINDS = {
    "64": lambda flow, rng: udp_frame(*flow),
    "imix": lambda flow, rng: udp_frame(*flow, rng.choice(IMIX)),
    "vlan": lambda flow, rng: udp_frame(*flow, tags=tag(CUSTOMER_TAG, rng)),
    "qinq": lambda flow, rng: udp_frame(*flow, tags=tag(SERVICE_TAG, rng) + tag(CUSTOMER_TAG, rng)),
    "v6": lambda flow, rng: MACS + IPV6 + ipv6_packet(flow, V6_HEADERS - 14),
}


def write_frames(path, frames):
    write_capture(path, Capture(frames=frames, headers=[(0, 0, len(frame)) for frame in frames]))
    return path
