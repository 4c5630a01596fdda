/* The rules of frames (docs/operate/dataplane.md, "Frames") that need no frame to be said: who walks one, the data
 * plane or the XDP program, walks it its own way by these. C subset, shared by inclusion (C++, BPF). */
#ifndef WEIR_FILTER_FRAME_RULES_H
#define WEIR_FILTER_FRAME_RULES_H

#include "filter/format/packet.h"

#ifdef __cplusplus
#define WEIR_RULE constexpr
#else
#define WEIR_RULE static inline __attribute__((always_inline, unused))
#endif

/* What a header of this protocol holds when all of it is there: mask of enum weir_has. TCP, UDP, SCTP, DCCP and
 * UDP-Lite begin with the ports. */
WEIR_RULE weir_u32 weir_carries(weir_u32 protocol) {
  if (protocol == 6) return WEIR_HAS_PORTS | WEIR_HAS_TCP_FLAGS;
  if (protocol == 17 || protocol == 132 || protocol == 33 || protocol == 136) return WEIR_HAS_PORTS;
  return protocol == 1 || protocol == 58 ? WEIR_HAS_ICMP_TYPE | WEIR_HAS_ICMP_CODE : 0;
}

/* Bytes of a transport header that have these fields (mask of enum weir_has). */
#define WEIR_PORT_BYTES 4u
#define WEIR_ICMP_BYTES 2u      /* type and code */
#define WEIR_TCP_FLAG_BYTES 14u /* the last of them is the flags */
WEIR_RULE weir_u32 weir_bytes_with(weir_u32 has) {
  if ((has & WEIR_HAS_TCP_FLAGS) != 0) return WEIR_TCP_FLAG_BYTES;
  if ((has & WEIR_HAS_PORTS) != 0) return WEIR_PORT_BYTES;
  if ((has & WEIR_HAS_ICMP_CODE) != 0) return WEIR_ICMP_BYTES;
  return (has & WEIR_HAS_ICMP_TYPE) != 0 ? 1 : 0;
}

/* enum weir_fragment. word: the two bytes of flags and offset of an IPv4 header; of offset and flags of an IPv6
 * fragment header. */
WEIR_RULE weir_u8 weir_fragment_of_ipv4(weir_u32 word) {
  if ((word & 0x1fff) != 0) return WEIR_FRAGMENT_LATER;
  return (word & 0x2000) != 0 ? WEIR_FRAGMENT_FIRST : WEIR_FRAGMENT_NONE;
}
WEIR_RULE weir_u8 weir_fragment_of_ipv6(weir_u32 word) {
  if ((word & 0xfff8) != 0) return WEIR_FRAGMENT_LATER;
  return (word & 1) != 0 ? WEIR_FRAGMENT_FIRST : WEIR_FRAGMENT_NONE;
}

#endif
