"""How a message to a data plane looks (common/wire.h), for those who ask one without controld. Standard library only."""

import struct

WIRE_HEADER = struct.Struct("<IHHII")  # magic, version, type, bytes of the body, sequence; little-endian
WIRE_MAGIC, WIRE_VERSION, WIRE_STATUS, WIRE_STATS = 0x52494557, 6, 1, 3


def question(kind):
    """A message without a body."""
    return WIRE_HEADER.pack(WIRE_MAGIC, WIRE_VERSION, kind, 0, 1)
