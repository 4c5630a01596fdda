/* The packets in a frame's tunnels (docs/operate/dataplane.md, "Tunnels"). In: what the outer packet carries, frame->at
 * to frame->end; out: the inner packet and what it carries. 0: there is none. */
#ifndef WEIR_BPF_TUNNEL_H
#define WEIR_BPF_TUNNEL_H

#include "bpf/program/frame.bpf.h"

/* IANA service names and port numbers. */
#define VXLAN_PORT 4789
#define GENEVE_PORT 6081
#define GTPU_PORT 2152
#define TEREDO_PORT 3544
#define UDP_TUNNELS (WEIR_TUNNEL_VXLAN | WEIR_TUNNEL_GENEVE | WEIR_TUNNEL_GTPU | WEIR_TUNNEL_TEREDO)

#define UDP_BYTES 8u
#define MAX_GTP_EXTENSIONS 16u

/* The tunnel of the mask whose port the packet has; of two, the first one here. */
static __always_inline weir_u32 udp_tunnel(const struct weir_packet* packet, weir_u32 tunnels) {
  if (!(packet->has & WEIR_HAS_PORTS)) return 0;
  const weir_u16 source = __builtin_bswap16(packet->port[WEIR_SIDE_SOURCE]);
  const weir_u16 destination = __builtin_bswap16(packet->port[WEIR_SIDE_DESTINATION]);
  if ((tunnels & WEIR_TUNNEL_VXLAN) && destination == VXLAN_PORT) return WEIR_TUNNEL_VXLAN;
  if ((tunnels & WEIR_TUNNEL_GENEVE) && destination == GENEVE_PORT) return WEIR_TUNNEL_GENEVE;
  if ((tunnels & WEIR_TUNNEL_GTPU) && (source == GTPU_PORT || destination == GTPU_PORT)) return WEIR_TUNNEL_GTPU;
  if ((tunnels & WEIR_TUNNEL_TEREDO) && (source == TEREDO_PORT || destination == TEREDO_PORT)) {
    return WEIR_TUNNEL_TEREDO;
  }
  return 0;
}

/* The tunnel of the mask that the packet is of; 0: none. */
static __always_inline weir_u32 tunnel_of(const struct weir_packet* packet, weir_u32 tunnels) {
  switch (packet->protocol) {
    case 4:
      return tunnels & WEIR_TUNNEL_IPIP;
    case 41:
      return tunnels & WEIR_TUNNEL_6IN4;
    case 47:
      return tunnels & WEIR_TUNNEL_GRE;
    case 17:
      return udp_tunnel(packet, tunnels);
    default:
      return 0;
  }
}

/* 1: so many more bytes are there, and are passed by. */
static __always_inline int skip(struct weir_frame* frame, weir_u32 bytes) {
  if (frame->at > frame->end || bytes > frame->end - frame->at) return 0;
  frame->at += bytes;
  return 1;
}

/* 1: `bytes` from frame->at on were read and passed by. */
#define TAKE(ctx, frame, to, bytes) (skip(frame, bytes) && !bpf_xdp_load_bytes(ctx, (frame)->at - (bytes), to, bytes))

/* Below: a tunnel's own header is passed by. They return the EtherType of what follows, TYPE_ANY_IP where its version
 * tells, and 0 when there is nothing. */
#define TYPE_ANY_IP 1u

/* RFC 2784 and 2890; with the routing bit it is RFC 1701, which nobody speaks. */
__noinline weir_u32 weir_skip_gre(struct xdp_md* ctx, struct weir_frame* frame) {
  weir_u8 gre[4] = {};
  if (!frame || !TAKE(ctx, frame, gre, 4)) return 0;
  if ((gre[0] & 0x40) || (gre[1] & 7)) return 0;                                    /* routing, version */
  const weir_u32 options = (gre[0] >> 7) + (gre[0] >> 5 & 1u) + (gre[0] >> 4 & 1u); /* checksum, key, sequence */
  return skip(frame, options * 4) ? be16(gre + 2) : 0;
}

/* RFC 7348. */
__noinline weir_u32 weir_skip_vxlan(struct xdp_md* ctx, struct weir_frame* frame) {
  weir_u8 vxlan[8] = {};
  return frame && TAKE(ctx, frame, vxlan, 8) && (vxlan[0] & 0x08) ? TYPE_ETHERNET : 0;
}

/* RFC 8926. Option length in 4-byte units. No MPLS behind it. */
__noinline weir_u32 weir_skip_geneve(struct xdp_md* ctx, struct weir_frame* frame) {
  weir_u8 geneve[8] = {};
  if (!frame || !TAKE(ctx, frame, geneve, 8) || geneve[0] >> 6 != 0) return 0;
  const weir_u32 type = be16(geneve + 2);
  if (type == TYPE_MPLS_UNICAST || type == TYPE_MPLS_MULTICAST) return 0;
  return skip(frame, (geneve[0] & 63u) * 4) ? type : 0;
}

/* 3GPP TS 29.281, section 5. Version 1, protocol type 1, message G-PDU. An extension header begins with its length in
 * 4-byte units and ends with the type of the next one; 0 ends them. */
__noinline weir_u32 weir_skip_gtpu(struct xdp_md* ctx, struct weir_frame* frame) {
  weir_u8 gtp[8] = {}, options[4] = {}, byte = 0;
  if (!frame || !TAKE(ctx, frame, gtp, 8)) return 0;
  if (gtp[0] >> 5 != 1 || !(gtp[0] & 0x10) || gtp[1] != 255) return 0;
  if (!(gtp[0] & 0x07)) return TYPE_ANY_IP;
  if (!TAKE(ctx, frame, options, 4)) return 0;
  weir_u32 next = gtp[0] & 0x04 ? options[3] : 0;
  for (weir_u32 extensions = 0; extensions < MAX_GTP_EXTENSIONS && next != 0; extensions++) {
    if (frame->at >= frame->end || bpf_xdp_load_bytes(ctx, frame->at, &byte, 1)) return 0;
    if (byte == 0 || !skip(frame, byte * 4u)) return 0;
    if (bpf_xdp_load_bytes(ctx, frame->at - 1, &byte, 1)) return 0;
    next = byte;
  }
  return next == 0 ? TYPE_ANY_IP : 0;
}

/* RFC 4380, section 5.1.1: an authentication header, then an origin indication, both optional, in front of IPv6. */
__noinline weir_u32 weir_skip_teredo(struct xdp_md* ctx, struct weir_frame* frame) {
  weir_u8 head[4] = {};
  if (!frame || frame->at > frame->end) return 0;
  if (frame->end - frame->at >= 2) {
    if (bpf_xdp_load_bytes(ctx, frame->at, head, 2)) return 0;
    if (be16(head) == 0x0001) {
      /* Client identifier and authentication value, nonce, confirmation. */
      if (!TAKE(ctx, frame, head, 4) || !skip(frame, head[2] + head[3] + 8u + 1u)) return 0;
    }
  }
  if (frame->end - frame->at >= 2) {
    if (bpf_xdp_load_bytes(ctx, frame->at, head, 2)) return 0;
    if (be16(head) == 0x0000 && !skip(frame, 8)) return 0;
  }
  return TYPE_IPV6;
}

static __always_inline weir_u32 skip_tunnel(struct xdp_md* ctx, weir_u32 tunnel, struct weir_frame* frame) {
  if ((tunnel & UDP_TUNNELS) && !skip(frame, UDP_BYTES)) return 0;
  switch (tunnel) {
    case WEIR_TUNNEL_IPIP:
      return TYPE_IPV4;
    case WEIR_TUNNEL_6IN4:
      return TYPE_IPV6;
    case WEIR_TUNNEL_GRE:
      return weir_skip_gre(ctx, frame);
    case WEIR_TUNNEL_VXLAN:
      return weir_skip_vxlan(ctx, frame);
    case WEIR_TUNNEL_GENEVE:
      return weir_skip_geneve(ctx, frame);
    case WEIR_TUNNEL_GTPU:
      return weir_skip_gtpu(ctx, frame);
    case WEIR_TUNNEL_TEREDO:
      return weir_skip_teredo(ctx, frame);
    default:
      return 0;
  }
}

/* 1: frame->packet is the inner packet, and frame->matched is empty. */
__noinline int weir_enter(struct xdp_md* ctx, weir_u32 tunnel, struct weir_frame* frame) {
  if (!frame) return 0;
  for (weir_u32 w = 0; w < WEIR_LIST_WORDS; w++) frame->matched.lists[w] = 0;
  weir_u32 type = skip_tunnel(ctx, tunnel, frame);
  const weir_u32 at = frame->at, end = frame->end;
  if (type == TYPE_ANY_IP) {
    weir_u8 first = 0;
    if (at >= end || bpf_xdp_load_bytes(ctx, at, &first, 1)) return 0;
    type = first >> 4 == 4 ? TYPE_IPV4 : TYPE_IPV6;
  }
  int entered = 0;
  switch (type) {
    case TYPE_IPV4:
      entered = weir_read_ipv4(ctx, at, end, frame);
      break;
    case TYPE_IPV6:
      entered = weir_read_ipv6(ctx, at, end, frame);
      break;
    case TYPE_ETHERNET:
      entered = weir_read_ethernet(ctx, at, end, frame) == IP;
      break;
    case TYPE_MPLS_UNICAST:
    case TYPE_MPLS_MULTICAST:
      entered = weir_read_mpls(ctx, at, end, 0, frame) == IP;
      break;
    default:
      break;
  }
  if (entered) frame->incomplete |= frame->packet.has & WEIR_INCOMPLETE;
  return entered;
}

#endif
