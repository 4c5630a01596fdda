/* The rules of frames (docs/operate/dataplane.md, "Frames" and "Tunnels") that can be said without a frame: numbers,
 * lengths, and what a header's bytes mean. Whoever walks frames by them, the data plane or the XDP program, does it in
 * its own way. C subset, shared by inclusion (C++, BPF). */
#ifndef WEIR_FILTER_FRAME_RULES_H
#define WEIR_FILTER_FRAME_RULES_H

#include "filter/format/packet.h"

#ifdef __cplusplus
#define WEIR_RULE constexpr
#else
#define WEIR_RULE static inline __attribute__((always_inline, unused))
#endif

/* EtherTypes (IEEE 802 numbers, IANA). */
#define WEIR_TYPE_IPV4 0x0800u
#define WEIR_TYPE_IPV6 0x86ddu
#define WEIR_TYPE_MPLS_UNICAST 0x8847u
#define WEIR_TYPE_MPLS_MULTICAST 0x8848u
#define WEIR_TYPE_PPPOE_SESSION 0x8864u
#define WEIR_TYPE_ETHERNET 0x6558u /* transparent Ethernet bridging: in GRE and Geneve */
WEIR_RULE int weir_is_vlan(weir_u32 type) {
  return type == 0x8100 || type == 0x88a8 || type == 0x9100;
}

/* In front of IP. */
#define WEIR_ETHERNET_BYTES 14u
#define WEIR_TAG_BYTES 4u
#define WEIR_MAX_TAGS 8u    /* VLAN tags and MPLS labels together */
#define WEIR_PLAIN_TAGS 2u  /* VLAN tags of a frame that either plane reads by its short way */
#define WEIR_PPPOE_BYTES 8u /* PPPoE header (RFC 2516) and the two-byte PPP protocol */
#define WEIR_PPP_IPV4 0x0021u
#define WEIR_PPP_IPV6 0x0057u
/* Session data: version and type 1, code 0. */
WEIR_RULE int weir_is_pppoe_data(weir_u32 version_and_type, weir_u32 code) {
  return version_and_type == 0x11 && code == 0;
}

/* IP. */
#define WEIR_IPV4_BYTES 20u
#define WEIR_IPV6_BYTES 40u
#define WEIR_MAX_EXTENSIONS 16u
/* Bytes of the extension header with this number and length field, a multiple of 4 and at least 8; 0: none that is
 * walked. */
WEIR_RULE weir_u32 weir_extension_bytes(weir_u32 number, weir_u32 length) {
  switch (number) {
    case 0:   /* hop-by-hop */
    case 43:  /* routing */
    case 60:  /* destination options */
    case 135: /* mobility */
    case 139: /* HIP */
    case 140: /* shim6 */
      return (length + 1) * 8;
    case 44: /* fragment: fixed, its second byte is reserved */
      return 8;
    case 51: /* authentication: in 4-byte units minus 2 (RFC 4302 section 2.2) */
      return (length + 2) * 4;
    default:
      return 0;
  }
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

/* Behind IP. What a header of this protocol holds when all of it is there: mask of enum weir_has. TCP, UDP, SCTP, DCCP
 * and UDP-Lite begin with the ports. */
WEIR_RULE weir_u32 weir_carries(weir_u32 protocol) {
  if (protocol == 6) return WEIR_HAS_PORTS | WEIR_HAS_TCP_FLAGS;
  if (protocol == 17 || protocol == 132 || protocol == 33 || protocol == 136) return WEIR_HAS_PORTS;
  return protocol == 1 || protocol == 58 ? WEIR_HAS_ICMP_TYPE | WEIR_HAS_ICMP_CODE : 0;
}
/* Bytes of it that have these (mask of enum weir_has). */
#define WEIR_PORT_BYTES 4u
#define WEIR_ICMP_BYTES 2u      /* type and code */
#define WEIR_TCP_FLAG_BYTES 14u /* the last of them is the flags */
WEIR_RULE weir_u32 weir_bytes_with(weir_u32 has) {
  if ((has & WEIR_HAS_TCP_FLAGS) != 0) return WEIR_TCP_FLAG_BYTES;
  if ((has & WEIR_HAS_PORTS) != 0) return WEIR_PORT_BYTES;
  if ((has & WEIR_HAS_ICMP_CODE) != 0) return WEIR_ICMP_BYTES;
  return (has & WEIR_HAS_ICMP_TYPE) != 0 ? 1 : 0;
}

/* Tunnels. IANA service names and port numbers. */
#define WEIR_MAX_LAYERS 4u /* of a frame, the outer one included */
#define WEIR_VXLAN_PORT 4789u
#define WEIR_GENEVE_PORT 6081u
#define WEIR_GTPU_PORT 2152u
#define WEIR_TEREDO_PORT 3544u
#define WEIR_UDP_TUNNELS (WEIR_TUNNEL_VXLAN | WEIR_TUNNEL_GENEVE | WEIR_TUNNEL_GTPU | WEIR_TUNNEL_TEREDO)
#define WEIR_UDP_BYTES 8u
#define WEIR_MAX_GTP_EXTENSIONS 16u

/* The tunnels of the mask that a packet of this protocol may be one of. */
WEIR_RULE weir_u32 weir_tunnels_over(weir_u32 protocol, weir_u32 tunnels) {
  switch (protocol) {
    case 4:
      return tunnels & WEIR_TUNNEL_IPIP;
    case 41:
      return tunnels & WEIR_TUNNEL_6IN4;
    case 47:
      return tunnels & WEIR_TUNNEL_GRE;
    case 17:
      return tunnels & WEIR_UDP_TUNNELS;
    default:
      return 0;
  }
}
/* The one of the mask that goes over UDP with these ports; of two, the first one here. */
WEIR_RULE weir_u32 weir_udp_tunnel(weir_u32 source, weir_u32 destination, weir_u32 tunnels) {
  if ((tunnels & WEIR_TUNNEL_VXLAN) != 0 && destination == WEIR_VXLAN_PORT) return WEIR_TUNNEL_VXLAN;
  if ((tunnels & WEIR_TUNNEL_GENEVE) != 0 && destination == WEIR_GENEVE_PORT) return WEIR_TUNNEL_GENEVE;
  if ((tunnels & WEIR_TUNNEL_GTPU) != 0 && (source == WEIR_GTPU_PORT || destination == WEIR_GTPU_PORT)) {
    return WEIR_TUNNEL_GTPU;
  }
  if ((tunnels & WEIR_TUNNEL_TEREDO) != 0 && (source == WEIR_TEREDO_PORT || destination == WEIR_TEREDO_PORT)) {
    return WEIR_TUNNEL_TEREDO;
  }
  return 0;
}

/* RFC 2784 and 2890, from the header's first four bytes: bytes of the header; 0: it is not looked into. With the
 * routing bit it is RFC 1701, which nobody speaks. */
WEIR_RULE weir_u32 weir_gre_bytes(const weir_u8* gre) {
  const weir_u32 routing = gre[0] & 0x40u, version = gre[1] & 7u;
  if (routing != 0 || version != 0) return 0;
  return 4 + 4 * ((gre[0] >> 7 & 1u) + (gre[0] >> 5 & 1u) + (gre[0] >> 4 & 1u)); /* checksum, key, sequence */
}
/* RFC 7348: there is a network identifier. */
#define WEIR_VXLAN_BYTES 8u
WEIR_RULE int weir_vxlan_is_valid(const weir_u8* vxlan) {
  return (vxlan[0] & 0x08) != 0;
}
/* RFC 8926, from the header's first byte: bytes of the header, its options (in 4-byte units) included; 0: another
 * version. */
#define WEIR_GENEVE_BYTES 8u /* without options */
WEIR_RULE weir_u32 weir_geneve_bytes(const weir_u8* geneve) {
  return geneve[0] >> 6 != 0 ? 0 : WEIR_GENEVE_BYTES + (geneve[0] & 63u) * 4;
}
/* 3GPP TS 29.281, section 5: version 1, protocol type 1, message G-PDU. With any of three flags four more bytes follow,
 * and with one of these the last of them is the type of an extension header; that begins with its length in 4-byte
 * units and ends with the type of the next one; 0 ends them. */
#define WEIR_GTP_BYTES 8u
#define WEIR_GTP_OPTION_BYTES 4u
WEIR_RULE int weir_gtp_is_packet(const weir_u8* gtp) {
  return gtp[0] >> 5 == 1 && (gtp[0] & 0x10) != 0 && gtp[1] == 255;
}
WEIR_RULE int weir_gtp_has_options(const weir_u8* gtp) {
  return (gtp[0] & 0x07) != 0;
}
WEIR_RULE int weir_gtp_has_extensions(const weir_u8* gtp) {
  return (gtp[0] & 0x04) != 0;
}
/* RFC 4380, section 5.1.1: an authentication header, then an origin indication, both optional, in front of IPv6. They
 * begin with these two bytes. */
#define WEIR_TEREDO_AUTHENTICATION 0x0001u
#define WEIR_TEREDO_ORIGIN 0x0000u
#define WEIR_TEREDO_ORIGIN_BYTES 8u
/* From its first four bytes: client identifier and authentication value, of the lengths in the last two, then a nonce
 * of 8 bytes and a confirmation of 1. */
WEIR_RULE weir_u32 weir_teredo_authentication_bytes(const weir_u8* head) {
  return 4u + head[2] + head[3] + 8u + 1u;
}

#endif
