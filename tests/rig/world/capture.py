"""Captures for replay: reads pcap and pcapng, writes pcap, sorts what a data plane let out. Standard library only.

A capture keeps each frame with the record header it came with (time, original length), so that what is written later
depends on the input and the verdicts alone, never on when or how the frames travelled.
"""

import struct
import zlib
from collections import Counter
from dataclasses import dataclass, field

ETHERNET = 1                 # LINKTYPE_ETHERNET
LONGEST_RECORD = 262144      # MAXIMUM_SNAPLEN of libpcap; a longer record means a damaged file
PCAPNG = b"\x0a\x0d\x0d\x0a"
VLAN_TYPES = (0x8100, 0x88a8, 0x9100)

# magic -> (byte order, nanoseconds)
MAGICS = {b"\xd4\xc3\xb2\xa1": ("<", False), b"\xa1\xb2\xc3\xd4": (">", False),
          b"\x4d\x3c\xb2\xa1": ("<", True), b"\xa1\xb2\x3c\x4d": (">", True)}

PACKED = ((b"\x1f\x8b", "gzip", "gunzip -k"), (b"\xfd7zXZ\0", "xz", "unxz -k"), (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
          (b"BZh", "bzip2", "bunzip2 -k"))


class CaptureError(Exception):
    """A capture that cannot be replayed; the text says which and why."""


@dataclass
class Capture:
    nanoseconds: bool = False
    frames: list = field(default_factory=list)   # bytes, as captured
    headers: list = field(default_factory=list)  # (seconds, micro- or nanoseconds, original length)
    warning: str = ""                            # the file ends inside a record
    snap_length: int = LONGEST_RECORD            # as the file says; it cuts nothing here

    def longest(self):
        return max(map(len, self.frames), default=0)


def read_capture(path):
    """The whole capture; CaptureError when it is none, or not Ethernet."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise CaptureError(f"cannot read {path}: {error.strerror}") from None
    try:
        if data[:4] in MAGICS:
            return _read_pcap(data)
        if data[:4] == PCAPNG:
            return _read_pcapng(data)
    except CaptureError as error:
        raise CaptureError(f"{path}: {error}") from None
    for magic, kind, command in PACKED:
        if data.startswith(magic):
            raise CaptureError(f"{path} is compressed ({kind}), and a capture is read as it is: `{command} {path}` first")
    raise CaptureError(f"{path} is neither a pcap nor a pcapng file")


def write_capture(path, capture, chosen=None, snap_length=LONGEST_RECORD):
    """Writes the frames whose numbers are chosen (default: all), little-endian, with the record headers that they came
    with. Whoever reads by libpcap gets frames cut at snap_length."""
    record = struct.Struct("<IIII")
    magic = 0xa1b23c4d if capture.nanoseconds else 0xa1b2c3d4
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, snap_length, ETHERNET))
        for number in range(len(capture.frames)) if chosen is None else chosen:
            frame = capture.frames[number]
            seconds, fraction, original = capture.headers[number]
            file.write(record.pack(seconds, fraction, len(frame), original))
            file.write(frame)


def _need_ethernet(link_type):
    if link_type != ETHERNET:
        raise CaptureError(f"link type {link_type} is not Ethernet (1)")


def _read_pcap(data):
    order, nanoseconds = MAGICS[data[:4]]
    if len(data) < 24:
        raise CaptureError("the file ends inside its header")
    snap_length, link_type = struct.unpack_from(order + "II", data, 16)
    _need_ethernet(link_type & 0x03ffffff)  # the upper bits tell about the FCS
    capture = Capture(nanoseconds, snap_length=snap_length)
    record = struct.Struct(order + "IIII")
    offset = 24
    while offset + 16 <= len(data):
        seconds, fraction, captured, original = record.unpack_from(data, offset)
        if captured > LONGEST_RECORD:
            raise CaptureError(f"damaged at frame {len(capture.frames) + 1}: {captured} captured bytes")
        if offset + 16 + captured > len(data):
            break
        capture.frames.append(data[offset + 16:offset + 16 + captured])
        capture.headers.append((seconds, fraction, original))
        offset += 16 + captured
    if offset != len(data):
        capture.warning = f"the file ends inside frame {len(capture.frames) + 1}: the whole frames before it are used"
    return capture


# pcapng (draft-ietf-opsawg-pcapng): blocks of type, length, body, length. Those that hold no frame are stepped over.
SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0a0d0d0a, 1, 2, 3, 6
OPTION_RESOLUTION, OPTION_OFFSET = 9, 14  # if_tsresol, if_tsoffset


@dataclass
class Interface:
    link_type: int
    snap_length: int
    units_per_second: int = 10**6
    offset_seconds: int = 0


def _read_interface(body, order):
    interface = Interface(*struct.unpack_from(order + "HxxI", body))
    offset = 8
    while offset + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, offset)
        value = body[offset + 4:offset + 4 + length]
        if code == OPTION_RESOLUTION and length == 1:
            exponent = value[0] & 0x7f
            interface.units_per_second = 2**exponent if value[0] & 0x80 else 10**exponent
        elif code == OPTION_OFFSET and length == 8:
            interface.offset_seconds = struct.unpack(order + "q", value)[0]
        offset += 4 + (length + 3) // 4 * 4
    return interface


def _read_packet(kind, body, order, interfaces):
    """(interface, time in its units, original length, frame) of a block that holds one."""
    if kind == SIMPLE_PACKET:
        original, = struct.unpack_from(order + "I", body)
        number, units, start = 0, 0, 4
        limit = interfaces[0].snap_length if interfaces else 0
        captured = min(original, limit) if limit else original
    else:
        layout = "IIIII" if kind == PACKET else "HxxIIII"
        number, high, low, captured, original = struct.unpack_from(order + layout, body)
        units, start = high << 32 | low, 20
    if number >= len(interfaces) or start + captured > len(body):
        raise struct.error
    return interfaces[number], units, original, body[start:start + captured]


def _read_pcapng(data):
    capture = Capture(nanoseconds=True)  # interfaces may differ in resolution: one that holds them all
    order, interfaces, offset = "<", [], 0
    while offset + 12 <= len(data):
        if data[offset:offset + 4] == PCAPNG:
            order = "<" if data[offset + 8:offset + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            interfaces = []
        kind, length = struct.unpack_from(order + "II", data, offset)
        if length < 12 or offset + length > len(data):
            break
        body = data[offset + 8:offset + length - 4]
        try:
            if kind == INTERFACE:
                interfaces.append(_read_interface(body, order))
            elif kind in (OLD_PACKET, SIMPLE_PACKET, PACKET):
                interface, units, original, frame = _read_packet(kind, body, order, interfaces)
                _need_ethernet(interface.link_type)
                seconds, rest = divmod(units, interface.units_per_second)
                fraction = rest * 10**9 // interface.units_per_second
                capture.frames.append(frame)
                capture.headers.append(((seconds + interface.offset_seconds) & 0xffffffff, fraction, original))
        except struct.error:
            raise CaptureError(f"damaged pcapng block at byte {offset}") from None
        offset += length
    if offset != len(data):
        capture.warning = f"the file ends inside a block: the {len(capture.frames)} whole frames before it are used"
    return capture


def flow_addresses(frame):
    """Source and destination as they stand in the frame; (b"", b"") for what is not IP. Looks behind VLAN tags."""
    offset = 12
    while int.from_bytes(frame[offset:offset + 2], "big") in VLAN_TYPES:
        offset += 4
    kind = frame[offset:offset + 2]
    if kind == b"\x08\x00":
        return frame[offset + 14:offset + 18], frame[offset + 18:offset + 22]
    if kind == b"\x86\xdd":
        return frame[offset + 10:offset + 26], frame[offset + 26:offset + 42]
    return b"", b""


def by_flow(frames):
    """The frames of each pair of addresses, in their order; those without addresses are one flow."""
    flows = {}
    for frame in frames:
        flows.setdefault(flow_addresses(frame), []).append(frame)
    return flows


def flow_hash(frame):
    """Equal for both directions of a pair of addresses; 0 for what is not IP."""
    first, second = flow_addresses(frame)
    return zlib.crc32(min(first, second) + max(first, second)) if first or second else 0


def split(capture, queues):
    """One capture per queue, by flow hash: a flow stays in its queue and in order."""
    parts = [Capture(capture.nanoseconds) for _ in range(queues)]
    for frame, header in zip(capture.frames, capture.headers):
        part = parts[flow_hash(frame) % queues]
        part.frames.append(frame)
        part.headers.append(header)
    return parts


def sort_out(frames, passed, dropped):
    """Numbers of the frames that passed and of those that dropped, from the bytes that came out of either side.

    Each frame must have come out on exactly one side, as often as it went in: equal frames get equal verdicts, so there
    is never a choice. Sides keep the order of each flow, not that of all frames, and are not held to one here.
    CaptureError names the first frame (from 1) that is missing or not as it was.
    """
    left = (Counter(passed), Counter(dropped))
    chosen = ([], [])
    for number, frame in enumerate(frames):
        owners = [side for side in (0, 1) if left[side][frame] > 0]
        if len(owners) != 1:
            what = "came out as passed and as dropped" if owners else "is lost or changed"
            raise CaptureError(f"frame {number + 1} {what}")
        left[owners[0]][frame] -= 1
        chosen[owners[0]].append(number)
    invented = sum(left[0].values()) + sum(left[1].values())
    if invented:
        raise CaptureError(f"{invented} frames came out that never went in")
    return chosen
