"""Builds frames from rows of headers, and knows what each captured length of them shows.

A frame is a list of headers, outermost first; assemble() writes their bytes from the inside out and notes where each
one begins and ends. seen() then says what a packet filter may know of the first `captured` bytes. It walks the headers
that were put there, never the bytes: nothing here can misread a frame the way a parser can. Standard library only.
"""

import ipaddress
import struct
from dataclasses import dataclass, field

from samples import checksum

HOP_BY_HOP, ICMP, IPIP, TCP, UDP, DCCP, SIX_IN_4, ROUTING, FRAGMENT, GRE, ESP, AH, ICMP6, NO_NEXT, OPTIONS, SCTP = (
    0, 1, 4, 6, 17, 33, 41, 43, 44, 47, 50, 51, 58, 59, 60, 132)
MOBILITY, UDP_LITE, HIP, SHIM6 = 135, 136, 139, 140
WITH_PORTS = (TCP, UDP, SCTP, DCCP, UDP_LITE)
FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))
MAX_TAGS, MAX_EXTENSIONS, MAX_LAYERS = 8, 16, 4
PORT_BYTES, ICMP_CODE_BYTES, TCP_FLAG_BYTES = 4, 2, 14  # of their header, to know ports; the code; flags


class Header:
    """One header of a frame. encode() gives its bytes, in front of payload; assemble() sets at and end."""

    at = end = 0
    ethertype = None  # how an Ethernet header or a tag in front of it announces it
    number = None     # how an IP header in front of it announces it
    padding = b""     # behind what it carries

    def encode(self, payload, following):
        raise NotImplementedError


class Data(Header):
    """Bytes that say nothing."""

    def __init__(self, content=b"data", number=None, ethertype=None):
        self.content, self.number, self.ethertype = content, number, ethertype

    def encode(self, payload, following):
        return self.content


# What stands in front of IP.

class Ethernet(Header):
    ethertype = 0x6558  # transparent Ethernet bridging, for GRE and Geneve

    def encode(self, payload, following):
        return b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" + struct.pack(">H", following.ethertype)


class Vlan(Header):
    def __init__(self, ethertype=0x8100):
        self.ethertype = ethertype

    def encode(self, payload, following):
        return struct.pack(">HH", 100, following.ethertype)


class Mpls(Header):
    def __init__(self, ethertype=0x8847):
        self.ethertype = ethertype

    def encode(self, payload, following):
        return struct.pack(">I", 16 << 12 | (not isinstance(following, Mpls)) << 8 | 64)


class Pppoe(Header):
    ethertype = 0x8864

    def __init__(self, first=0x11, code=0, protocol=None):
        self.first, self.code, self.protocol = first, code, protocol
        self.session = first == 0x11 and code == 0 and protocol is None

    def encode(self, payload, following):
        protocol = self.protocol or {4: 0x0021, 6: 0x0057}[following.family]
        return struct.pack(">BBHHH", self.first, self.code, 7, 2 + len(payload), protocol)


# IP.

class V4(Header):
    """total, version, ihl, right_checksum: how the header lies. total 0: as segmentation offload leaves it."""

    ethertype, number, family = 0x0800, IPIP, 4

    def __init__(self, src, dst, options=b"", fragment=0, total=None, version=4, ihl=None, right_checksum=True,
                 padding=b"", dscp=0):
        self.src, self.dst, self.options, self.fragment = src, dst, options, fragment
        self.total, self.version, self.ihl = total, version, ihl
        self.right_checksum, self.padding, self.dscp = right_checksum, padding, dscp

    def encode(self, payload, following):
        if self.ihl is None:
            self.ihl = 5 + len(self.options) // 4
        if self.total is None:
            self.total = 20 + len(self.options) + len(payload)
        self.sound = self.version == 4 and self.ihl >= 5 and (self.total == 0 or self.total >= 4 * self.ihl)
        self.protocol = following.number
        # The lower two bits, ECN, are no part of the DSCP.
        head = struct.pack(">BBHHHBBH4s4s", self.version << 4 | self.ihl, self.dscp << 2 | 1, self.total, 1, self.fragment, 64,
                           self.protocol, 0, packed(self.src, 4), packed(self.dst, 4)) + self.options
        total = checksum(head) ^ (0 if self.right_checksum else 0x0101)
        return head[:10] + struct.pack(">H", total) + head[12:]

    def head_bytes(self):
        return 4 * self.ihl


class V6(Header):
    ethertype, number, family = 0x86dd, SIX_IN_4, 6
    right_checksum = True

    def __init__(self, src, dst, payload_bytes=None, version=6, padding=b"", dscp=0):
        self.src, self.dst, self.payload_bytes, self.version, self.padding = src, dst, payload_bytes, version, padding
        self.dscp = dscp

    def encode(self, payload, following):
        if self.payload_bytes is None:
            self.payload_bytes = len(payload)
        self.total = self.payload_bytes and 40 + self.payload_bytes
        self.sound = self.version == 6
        self.protocol = following.number
        return struct.pack(">IHBB16s16s", self.version << 28 | self.dscp << 22 | 2 << 20, self.payload_bytes, self.protocol, 64,
                           packed(self.src, 6), packed(self.dst, 6))

    def head_bytes(self):
        return 40


class Extension(Header):
    """An IPv6 extension header that is walked. units: of its length field, 8 bytes each (AH: 4)."""

    later = False

    def __init__(self, number, units=0):
        self.number, self.units = number, units

    def encode(self, payload, following):
        self.following = following.number
        if self.number == AH:
            return struct.pack(">BBHII", self.following, self.units + 1, 0, 1, 1) + bytes(4 * self.units)
        return struct.pack(">BB", self.following, self.units) + b"\x01\x04\0\0\0\0" + bytes(8 * self.units)


class Fragment(Extension):
    """offset in 8-byte units. Offset 0 without more: an atomic fragment (RFC 6946)."""

    def __init__(self, offset=0, more=False):
        self.number, self.offset, self.more, self.later = FRAGMENT, offset, more, offset != 0

    def encode(self, payload, following):
        self.following = following.number
        # The reserved byte looks like a length: it is none.
        return struct.pack(">BBHI", self.following, 0xff, self.offset << 3 | self.more, 1)


# What IP carries.

class Transport(Header):
    """ports: (source, destination) or None; icmp: (type, code) or None; flags: of TCP or None."""

    ports = icmp = flags = None


class WithPorts(Transport):
    def __init__(self, number, sport, dport, flags=SYN):
        self.number, self.ports = number, (sport, dport)
        self.flags = flags if number == TCP else None

    def encode(self, payload, following):
        head = struct.pack(">HH", *self.ports)
        if self.number == TCP:
            return head + struct.pack(">IIBBHHH", 1, 1, 0x50, self.flags, 65535, 0, 0)
        if self.number == DCCP:
            return head + struct.pack(">BBHBBHI", 4, 0, 0, 0x04, 0, 0, 1)
        if self.number == SCTP:
            return head + bytes(8)
        return head + struct.pack(">HH", 8 + len(payload), 0)


def udp(sport, dport):
    return WithPorts(UDP, sport, dport)


class Icmp(Transport):
    def __init__(self, number, kind, code):
        self.number, self.icmp = number, (kind, code)

    def encode(self, payload, following):
        return struct.pack(">BBHI", *self.icmp, 0, 1)


class Opaque(Transport):
    """A protocol that is neither walked nor has ports: ESP, no-next-header, any other."""

    def __init__(self, number):
        self.number = number

    def encode(self, payload, following):
        return b"\0\0\0\x01\0\0\0\x02"


# Tunnels: each stands between what carries it and the inner header. known() is whether a filter takes it for one.

class Tunnel(Header):
    name = None

    def known(self, carrier):
        """carrier: the header in front of it."""
        return True


class Gre(Tunnel):
    """RFC 1701, 2784, 2890; flags: C 0x8000, routing 0x4000, K 0x2000, S 0x1000; version: the lowest three bits."""

    name, number = "gre", GRE

    def __init__(self, flags=0):
        self.flags = flags

    def encode(self, payload, following):
        words = bin(self.flags & 0xb000).count("1")
        return struct.pack(">HH", self.flags, following.ethertype) + bytes(range(1, 4 * words + 1))

    def known(self, carrier):
        return self.flags & 0x4007 == 0  # no routing, version 0


class OverUdp(Tunnel):
    either_port = False

    def known(self, carrier):
        sport, dport = carrier.ports
        return carrier.number == UDP and (dport == self.port or (self.either_port and sport == self.port))


class Vxlan(OverUdp):
    """RFC 7348; flags: I is 8, and means that there is a network identifier."""

    name, port = "vxlan", 4789

    def __init__(self, flags=8):
        self.flags = flags

    def encode(self, payload, following):
        return struct.pack(">II", self.flags << 24, 42 << 8)

    def known(self, carrier):
        return OverUdp.known(self, carrier) and self.flags & 8 != 0


class Geneve(OverUdp):
    name, port = "geneve", 6081

    def __init__(self, options=0, version=0):
        self.options, self.version = options, version

    def known(self, carrier):
        return OverUdp.known(self, carrier) and self.version == 0

    def encode(self, payload, following):
        head = struct.pack(">BBHI", self.version << 6 | self.options, 0, following.ethertype, 42 << 8)
        return head + bytes(4 * self.options)


class Gtpu(OverUdp):
    """A G-PDU (3GPP TS 29.281 section 5). flags: E 4, S 2, PN 1; extensions: bytes of each, a multiple of four."""

    name, port, either_port = "gtpu", 2152, True

    def __init__(self, flags=0, extensions=(), message=255):
        self.flags, self.extensions, self.message = flags | (4 if extensions else 0), extensions, message

    def encode(self, payload, following):
        optional = b""
        if self.flags:
            optional = struct.pack(">HBB", 7, 0, 0x85 if self.extensions else 0)
        for number, size in enumerate(self.extensions, 1):
            last = number == len(self.extensions)
            optional += bytes([size // 4]) + b"\x11" * (size - 2) + bytes([0 if last else 0x85])
        return struct.pack(">BBHI", 0x30 | self.flags, self.message, len(optional) + len(payload), 42) + optional

    def known(self, carrier):
        return OverUdp.known(self, carrier) and self.message == 255


class Teredo(OverUdp):
    """RFC 4380 section 5.1.1: IPv6 right behind UDP, or behind an authentication and an origin indication."""

    name, port, either_port = "teredo", 3544, True

    def __init__(self, authentication=False, origin=False):
        self.authentication, self.origin = authentication, origin

    def encode(self, payload, following):
        return ((b"\0\x01\0\0" + bytes(8) + b"\0" if self.authentication else b"")
                + (b"\0\0" + bytes(6) if self.origin else b""))


def packed(address, family):
    return address.to_bytes(4 if family == 4 else 16, "big")


def number_of(text):
    return int(ipaddress.ip_address(text))


class Frame:
    def __init__(self, headers):
        self.headers = headers
        self.bytes = assemble(headers)


def assemble(headers):
    """The bytes of a frame, and at and end of every header."""
    content, sizes = b"", []
    for place in range(len(headers) - 1, -1, -1):
        following = headers[place + 1] if place + 1 < len(headers) else None
        head = headers[place].encode(content, following)
        sizes.append(len(head))
        content = head + content + headers[place].padding
    at = 0
    for header, size in zip(headers, reversed(sizes)):
        header.at, header.end = at, at + size
        at += size
    return content


@dataclass
class Layer:
    """What is known of one IP packet; None: the field does not exist."""

    family: int
    src: int
    dst: int
    protocol: int
    sport: int | None = None
    dport: int | None = None
    icmp_type: int | None = None
    icmp_code: int | None = None
    flags: int | None = None
    length: int = 0  # as its header says, or to the end of what is around it
    dscp: int = 0
    fragment: str = "none"  # none | first | later


@dataclass
class Seen:
    outcome: str  # ip | not_ip | malformed
    layers: list = field(default_factory=list)
    incomplete: bool = False  # the outermost layer's chain


def seen(headers, captured, tunnels=()):
    """What the first `captured` bytes show, with the inner layers of these tunnels."""
    place, mpls, problem = _link(headers, 0, captured)
    if problem:
        return Seen(problem)
    layers, incomplete, end, inner = [], False, captured, (place, mpls)
    while inner and len(layers) < MAX_LAYERS:
        layer, cut, inner, end = _layer(headers, *inner, end, tunnels)
        if layer is None:
            break
        incomplete = incomplete or (cut and not layers)
        layers.append(layer)
    if not layers:
        return Seen("not_ip" if mpls else "malformed")
    return Seen("ip", layers, incomplete)


def _link(headers, place, end):
    """What stands in front of IP: (place of the IP header, whether behind MPLS, or why there is none)."""
    tags, mpls = 0, False
    while not isinstance(headers[place], (V4, V6)):
        header = headers[place]
        if not isinstance(header, (Ethernet, Vlan, Mpls, Pppoe)):
            return place, mpls, "not_ip"
        tags += isinstance(header, (Vlan, Mpls))
        if end < header.end or tags > MAX_TAGS:
            return place, mpls, "malformed"
        if isinstance(header, Pppoe) and not header.session:
            return place, mpls, "not_ip"
        mpls = mpls or isinstance(header, Mpls)
        place += 1
    return place, mpls, None


def _layer(headers, place, need_checksum, end, tunnels):
    """(layer or None, whether its chain is cut off, inner packet as _inner says, end of this one)."""
    header = headers[place]
    if not header.sound or end < header.at + header.head_bytes() or (need_checksum and not header.right_checksum):
        return None, False, None, end
    layer = Layer(header.family, header.src, header.dst, header.protocol)
    layer.length, layer.dscp = header.total or end - header.at, header.dscp
    if header.total:
        end = min(end, header.at + header.total)
    place += 1
    later = header.family == 4 and header.fragment & 0x1fff != 0
    if header.family == 4 and header.fragment & 0x3fff:
        layer.fragment = "later" if later else "first"
    walked = 0
    while header.family == 6 and isinstance(headers[place], Extension) and not later:
        extension = headers[place]
        if walked == MAX_EXTENSIONS or end < extension.end:
            return layer, True, None, end
        layer.protocol, later = extension.following, extension.later
        if isinstance(extension, Fragment) and (later or extension.more):
            layer.fragment = "later" if later else "first"
        walked, place = walked + 1, place + 1
    # Where a header lies about its own length, what is read behind it is data, which no row asks for.
    lies = header.head_bytes() != header.end - header.at
    if later or lies:
        return layer, False, None, end
    carried = headers[place]
    if isinstance(carried, Transport):
        there = end - carried.at
        if carried.ports and there >= PORT_BYTES:
            layer.sport, layer.dport = carried.ports
        if carried.icmp and there >= 1:
            layer.icmp_type = carried.icmp[0]
        if carried.icmp and there >= ICMP_CODE_BYTES:
            layer.icmp_code = carried.icmp[1]
        if carried.flags is not None and there >= TCP_FLAG_BYTES:
            layer.flags = carried.flags
    return layer, False, _inner(headers, place, end, tunnels), end


def _inner(headers, place, end, tunnels):
    """(place of the IP header that a tunnel carries, whether behind MPLS); None when the tunnel is none of these, or
    not all of it is there."""
    carried = headers[place]
    if isinstance(carried, (V4, V6)):
        return (place, False) if {4: "ipip", 6: "6in4"}[carried.family] in tunnels else None
    if isinstance(carried, WithPorts) and place + 1 < len(headers):
        if end < carried.end:
            return None
        place += 1
    tunnel = headers[place]
    if not isinstance(tunnel, Tunnel) or tunnel.name not in tunnels or not tunnel.known(headers[place - 1]):
        return None
    if end < tunnel.end:
        return None
    place, mpls, problem = _link(headers, place + 1, end)
    return None if problem else (place, mpls)
