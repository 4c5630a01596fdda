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

#endif
