/* One layer of a packet (docs/operate/dataplane.md, "Frames"): the fields that keys are made of and residuals ask
 * about.
 *
 * C subset, shared by inclusion (C++, BPF, tests). Whoever parses fills it; who compares reads nothing that `has` does
 * not name.
 */
#ifndef WEIR_FILTER_PACKET_H
#define WEIR_FILTER_PACKET_H

#include "filter/format/snapshot.h"

enum weir_side { WEIR_SIDE_SOURCE = 0, WEIR_SIDE_DESTINATION = 1 };

enum weir_has { /* a mask */
                WEIR_HAS_PORTS = 1,
                WEIR_HAS_ICMP_TYPE = 2, /* of protocols 1 and 58 */
                WEIR_HAS_TCP_FLAGS = 4, /* of protocol 6 */
                WEIR_INCOMPLETE =
                    8, /* IPv6 chain that is cut off or too long: protocol is the number of the header not walked */
                WEIR_HAS_ICMP_CODE = 16, /* of protocols 1 and 58 */
                WEIR_OPEN_END = 32,      /* length 0 in its header: it ends where what is around it does */
};

enum weir_fragment { WEIR_FRAGMENT_NONE, WEIR_FRAGMENT_FIRST, WEIR_FRAGMENT_LATER };

struct weir_packet {
  weir_u64 address[2][2]; /* [side][half] as on the wire; IPv4: the low four bytes of half 0, half 1 is not set */
  weir_u16 port[2];       /* [side] as on the wire */
  weir_u8 family;         /* 4 or 6 */
  weir_u8 protocol;
  weir_u8 has; /* mask of enum weir_has */
  weir_u8 icmp_type, icmp_code;
  weir_u8 tcp_flags; /* byte 13 of the TCP header: CWR ECE URG ACK PSH RST SYN FIN, from the highest bit */
  weir_u8 dscp;      /* upper six bits of IPv4's type of service, IPv6's traffic class (RFC 2474) */
  weir_u8 fragment;  /* enum weir_fragment; an atomic one (RFC 6946) is none */
  weir_u32 length; /* of the IP packet, header included, as its header says; 0 there: to the end of what is around it */
};

#endif
