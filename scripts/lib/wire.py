"""How a message to a data plane looks (common/wire.h), for those who ask one without controld. Standard library only."""

import struct

WIRE_HEADER = struct.Struct("<IHHII")  # common/wire.h: magic, version, type, bytes of the body, sequence
WIRE_MAGIC, WIRE_VERSION, WIRE_STATUS, WIRE_STATS = 0x52494557, 3, 1, 3
