"""The samples: a synthetic capture, feeds and two policies, the same bytes for the same seed. Standard library only.

All addresses are of documentation and benchmark ranges (RFC 5737, 3849, 2544, 5180). A share of the flows comes from
addresses that the policies name: scanners and botnet (feeds, by source), abuse (feed, either side), c2 (destination,
some with a port), partners (allowlist, some of them scanners too), watch (monitored). Between them lie frames that are
not IP, cut off, or lie about themselves.
"""

import ipaddress
import os
import random
import struct

from capture import Capture, write_capture

FIRST_SECOND = 1767225600  # 2026-01-01T00:00:00Z
SIZES = (60, 60, 60, 60, 60, 60, 60, 570, 570, 570, 570, 1514)  # IMIX 7:4:1, without FCS
TCP, UDP, ICMP, ICMP6, SCTP = 6, 17, 1, 58, 132

INNOCENT, SCANNER, BOTNET, ABUSE, PARTNER, WATCHED = range(6)
SHARES = (78, 6, 6, 3, 4, 3)  # of the clients, in percent

POLICY = """\
# Written by scripts/make-samples.
version: 1
policy:
  default: pass
  unparsed: drop
lists:
  - name: partners
    action: pass
    match: either
    entries: [198.18.7.0/24, "2001:db8:7::/48"]
  - name: {name}
    action: drop
    file: feeds/{name}.txt
  - name: abuse
    action: drop
    match: either
    file: feeds/abuse.txt
  - name: c2
    action: drop
    match: dst
    entries:
      - 203.0.113.66:4444
      - 203.0.113.200-203.0.113.207
      - 198.51.100.128/28
      - "[2001:db8:c2::1]:8443"
      - 2001:db8:c2:2::/64
  - name: watch
    action: drop
    mode: monitor
    entries: [198.18.64.0/20, "2001:db8:64::/48"]
"""

# The last three and the last two are what the list c2 names.
SERVERS_V4 = [f"192.0.2.{host}" for host in range(10, 26)] + ["198.51.100.7", "203.0.113.9"] + [
    "203.0.113.66", "203.0.113.203", "198.51.100.130"]
SERVERS_V6 = [f"2001:db8::{host:x}" for host in range(16, 32)] + ["2001:2::7"] + [
    "2001:db8:c2::1", "2001:db8:c2:2::9"]
PORTS = (80, 443, 443, 443, 53, 22, 4444, 8443)


def checksum(data):
    """RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ipv4(source, destination, protocol, payload, fragment=0, options=b""):
    header_bytes = 20 + len(options)
    head = struct.pack(">BBHHHBBH4s4s", 0x40 | header_bytes // 4, 0, header_bytes + len(payload), 1, fragment, 64,
                       protocol, 0, source.packed, destination.packed) + options
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def ipv6(source, destination, protocol, payload, extension=b""):
    """extension: header bytes between the fixed header and the payload; its first header's number is protocol."""
    payload = extension + payload
    return struct.pack(">IHBB16s16s", 6 << 28, len(payload), protocol, 64, source.packed, destination.packed) + payload


def transport(source, destination, protocol, source_port, destination_port, data):
    """Header with a right checksum, then data."""
    ports = struct.pack(">HH", source_port, destination_port)
    if protocol == UDP:
        head, at = ports + struct.pack(">HH", 8 + len(data), 0), 6
    elif protocol == TCP:
        head, at = ports + struct.pack(">IIBBHHH", 1, 1, 0x50, 0x18, 65535, 0, 0), 16
    elif protocol == SCTP:  # its CRC32c is left 0: nothing here reads it
        return ports + bytes(8) + data
    else:  # echo request
        head, at = struct.pack(">BBHHH", 8 if protocol == ICMP else 128, 0, 0, source_port, 1), 2
    pseudo = b"" if protocol == ICMP else source.packed + destination.packed + struct.pack(
        ">II", len(head) + len(data), protocol)
    return head[:at] + struct.pack(">H", checksum(pseudo + head + data)) + head[at + 2:] + data


def ethernet(kind, payload, vlans=()):
    tags = b"".join(struct.pack(">HH", 0x88a8 if i + 1 < len(vlans) else 0x8100, vlan) for i, vlan in enumerate(vlans))
    frame = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" + tags + struct.pack(">H", kind) + payload
    return frame.ljust(60, b"\0")


class Flow:
    def __init__(self, rng, client, is_v6):
        self.client = client
        self.server = ipaddress.ip_address(rng.choice(SERVERS_V6 if is_v6 else SERVERS_V4))
        self.protocol = rng.choice((TCP, TCP, TCP, UDP, UDP, ICMP6 if is_v6 else ICMP, SCTP))
        self.client_port = rng.randrange(1024, 65536)
        self.server_port = rng.choice(PORTS)
        self.vlans = rng.choice(((),) * 8 + ((100,), (200, 30)))

    def frame(self, rng):
        source, destination = self.client, self.server
        ports = self.client_port, self.server_port
        if rng.random() < 0.4:  # the answer
            source, destination, ports = destination, source, ports[::-1]
        is_v6 = source.version == 6
        headers = 14 + 4 * len(self.vlans) + (40 if is_v6 else 20) + 20
        data = bytes(max(0, rng.choice(SIZES) - headers))
        segment = transport(source, destination, self.protocol, *ports, data)
        kind = rng.randrange(100)
        if is_v6:
            extension, protocol = b"", self.protocol
            if kind < 2:    # hop-by-hop (padding only), then destination options
                protocol, extension = 0, bytes([60, 0, 1, 4, 0, 0, 0, 0, self.protocol, 0, 1, 4, 0, 0, 0, 0])
            elif kind < 4:  # the first fragment has ports, a later one has none
                offset_and_more = 0x0001 if kind == 2 else 0x00b8
                protocol, extension = 44, struct.pack(">BBHI", self.protocol, 0, offset_and_more, 7)
            packet = ipv6(source, destination, protocol, segment, extension)
            if kind == 4:   # the extension header says it is longer than the packet
                packet = ipv6(source, destination, 60, b"", bytes([self.protocol, 200, 1, 4, 0, 0, 0, 0]))
        else:
            fragment = {0: 0x2000, 1: 0x00b9}.get(kind, 0)
            options = b"\x94\x04\0\0" if kind == 2 else b""  # router alert
            packet = ipv4(source, destination, self.protocol, segment, fragment, options)
            if kind == 3:   # total length 0, as segmentation offload leaves it
                packet = packet[:2] + b"\0\0" + packet[4:]
        return ethernet(0x86dd if is_v6 else 0x0800, packet, self.vlans)


def odd_frames(rng):
    """Not IP, cut off, or wrong about itself."""
    inside = ipv4(ipaddress.ip_address("198.18.0.1"), ipaddress.ip_address("192.0.2.10"), UDP, bytes(26))
    return rng.choice((
        ethernet(0x0806, struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + bytes(20)),  # ARP
        ethernet(0x88cc, bytes(46)),                                              # LLDP
        ethernet(0x0800, inside)[:30],                                            # cut inside the IPv4 header
        ethernet(0x0800, b"\x65" + inside[1:]),                                   # version 6 behind type IPv4
        ethernet(0x0800, b"\x44" + inside[1:]),                                   # header of 16 bytes
        ethernet(0x86dd, inside),                                                 # version 4 behind type IPv6
        ethernet(0x0800, inside, (5,))[:16],                                      # cut inside a VLAN tag
        ethernet(0x0800, inside)[:9],                                             # cut inside the Ethernet header
    ))


def clients(rng, flows):
    """[(role, address)], a quarter of them IPv6."""
    v4_of_role = {PARTNER: 0x0700, WATCHED: 0x4000}    # the third and fourth octet within 198.18.0.0/16
    v6_of_role = {PARTNER: 7, WATCHED: 0x64}           # the third group of 2001:db8::/32
    found = []
    for _ in range(flows):
        role, = rng.choices(range(len(SHARES)), SHARES)
        if rng.random() < 0.25:
            group = v6_of_role.get(role, rng.randrange(0x100, 0x200))
            address = ipaddress.IPv6Address(0x20010db8 << 96 | group << 80 | rng.getrandbits(48))
        elif role in v4_of_role:
            address = ipaddress.IPv4Address(0xc6120000 | v4_of_role[role] | rng.randrange(256))
        else:
            address = ipaddress.IPv4Address(0xc6130000 | rng.getrandbits(16))  # 198.19.0.0/16
        found.append((role, address))
    return found


def feed(title, addresses, extra):
    lines = [f"# {title}; written by scripts/make-samples", "; either mark starts a comment"]
    lines += [f"{address}" for address in sorted(addresses, key=lambda a: (a.version, a))]
    return "\n".join(lines + extra) + "\n"


def make_samples(folder, seed=1, flows=4000, frames=20000):
    """Writes capture.pcap, weir.yaml, weir-second.yaml (botnet in the place of scanners) and feeds/*.txt."""
    rng = random.Random(seed)
    found = clients(rng, flows)

    def of_role(role):
        return {address for r, address in found if r == role}

    flow_list = [Flow(rng, address, address.version == 6) for _, address in found]

    capture = Capture()
    for number in range(frames):
        odd = rng.random() < 0.01
        frame = odd_frames(rng) if odd else rng.choice(flow_list).frame(rng)
        original = len(frame)
        if not odd and rng.random() < 0.02:
            frame = frame[:96]  # captured with a small snap length
        microseconds = number * 50 + rng.randrange(50)
        capture.frames.append(frame)
        capture.headers.append((FIRST_SECOND + microseconds // 10**6, microseconds % 10**6, original))

    partners = sorted(of_role(PARTNER), key=str)
    files = {
        "feeds/scanners.txt": feed("scanners", of_role(SCANNER) | set(partners[::3]),
                                   ["198.19.250.0/24\t# a network, and what it is", "198.19.9.1 - 198.19.9.77"]),
        "feeds/botnet.txt": feed("botnet", of_role(BOTNET), ["2001:db8:1f0::/44"]),
        "feeds/abuse.txt": feed("abuse", of_role(ABUSE), ["198.19.128.0/255.255.255.0", "198.51.100.7:22"]),
        "weir.yaml": POLICY.format(name="scanners"),
        "weir-second.yaml": POLICY.format(name="botnet"),
    }
    os.makedirs(os.path.join(folder, "feeds"), exist_ok=True)
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(text)
    write_capture(os.path.join(folder, "capture.pcap"), capture)
