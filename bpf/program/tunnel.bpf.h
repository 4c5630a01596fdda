/* The packets in a frame's tunnels (docs/operate/dataplane.md, "Tunnels"). In: what the outer packet carries, frame->at
 * to frame->end; out: the inner packet and what it carries. 0: there is none. */
#ifndef WEIR_BPF_TUNNEL_H
#define WEIR_BPF_TUNNEL_H

#include "bpf/program/frame.bpf.h"

/* The tunnel of the mask that the packet is of; 0: none. */
static __always_inline weir_u32 tunnel_of(const struct weir_packet* packet, weir_u32 tunnels) {
  const weir_u32 possible = weir_tunnels_over(packet->protocol, tunnels);
  if (!(possible & WEIR_UDP_TUNNELS)) return possible;
  if (!(packet->has & WEIR_HAS_PORTS)) return 0;
  return weir_udp_tunnel(__builtin_bswap16(packet->port[WEIR_SIDE_SOURCE]),
                         __builtin_bswap16(packet->port[WEIR_SIDE_DESTINATION]), possible);
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

__noinline weir_u32 weir_skip_gre(struct xdp_md* ctx, struct weir_frame* frame) {
  weir_u8 gre[4] = {};
  if (!frame || !TAKE(ctx, frame, gre, 4)) return 0;
  const weir_u32 bytes = weir_gre_bytes(gre);
  return bytes != 0 && skip(frame, bytes - 4) ? be16(gre + 2) : 0;
}

__noinline weir_u32 weir_skip_vxlan(struct xdp_md* ctx, struct weir_frame* frame) {
  weir_u8 vxlan[WEIR_VXLAN_BYTES] = {};
  return frame && TAKE(ctx, frame, vxlan, WEIR_VXLAN_BYTES) && weir_vxlan_is_valid(vxlan) ? WEIR_TYPE_ETHERNET : 0;
}

/* No MPLS behind it. */
__noinline weir_u32 weir_skip_geneve(struct xdp_md* ctx, struct weir_frame* frame) {
  weir_u8 geneve[WEIR_GENEVE_BYTES] = {};
  if (!frame || !TAKE(ctx, frame, geneve, WEIR_GENEVE_BYTES)) return 0;
  const weir_u32 bytes = weir_geneve_bytes(geneve), type = be16(geneve + 2);
  if (bytes == 0 || type == WEIR_TYPE_MPLS_UNICAST || type == WEIR_TYPE_MPLS_MULTICAST) return 0;
  return skip(frame, bytes - WEIR_GENEVE_BYTES) ? type : 0;
}

__noinline weir_u32 weir_skip_gtpu(struct xdp_md* ctx, struct weir_frame* frame) {
  weir_u8 gtp[WEIR_GTP_BYTES] = {}, options[WEIR_GTP_OPTION_BYTES] = {}, byte = 0;
  if (!frame || !TAKE(ctx, frame, gtp, WEIR_GTP_BYTES)) return 0;
  if (!weir_gtp_is_packet(gtp)) return 0;
  if (!weir_gtp_has_options(gtp)) return TYPE_ANY_IP;
  if (!TAKE(ctx, frame, options, WEIR_GTP_OPTION_BYTES)) return 0;
  weir_u32 next = weir_gtp_has_extensions(gtp) ? options[3] : 0;
  for (weir_u32 extensions = 0; extensions < WEIR_MAX_GTP_EXTENSIONS && next != 0; extensions++) {
    if (frame->at >= frame->end || bpf_xdp_load_bytes(ctx, frame->at, &byte, 1)) return 0;
    if (byte == 0 || !skip(frame, byte * 4u)) return 0;
    if (bpf_xdp_load_bytes(ctx, frame->at - 1, &byte, 1)) return 0;
    next = byte;
  }
  return next == 0 ? TYPE_ANY_IP : 0;
}

__noinline weir_u32 weir_skip_teredo(struct xdp_md* ctx, struct weir_frame* frame) {
  weir_u8 head[4] = {};
  if (!frame || frame->at > frame->end) return 0;
  if (frame->end - frame->at >= 2) {
    if (bpf_xdp_load_bytes(ctx, frame->at, head, 2)) return 0;
    if (be16(head) == WEIR_TEREDO_AUTHENTICATION) {
      if (!TAKE(ctx, frame, head, 4) || !skip(frame, weir_teredo_authentication_bytes(head) - 4)) return 0;
    }
  }
  if (frame->end - frame->at >= 2) {
    if (bpf_xdp_load_bytes(ctx, frame->at, head, 2)) return 0;
    if (be16(head) == WEIR_TEREDO_ORIGIN && !skip(frame, WEIR_TEREDO_ORIGIN_BYTES)) return 0;
  }
  return WEIR_TYPE_IPV6;
}

static __always_inline weir_u32 skip_tunnel(struct xdp_md* ctx, weir_u32 tunnel, struct weir_frame* frame) {
  if ((tunnel & WEIR_UDP_TUNNELS) && !skip(frame, WEIR_UDP_BYTES)) return 0;
  switch (tunnel) {
    case WEIR_TUNNEL_IPIP:
      return WEIR_TYPE_IPV4;
    case WEIR_TUNNEL_6IN4:
      return WEIR_TYPE_IPV6;
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
    type = first >> 4 == 4 ? WEIR_TYPE_IPV4 : WEIR_TYPE_IPV6;
  }
  int entered = 0;
  switch (type) {
    case WEIR_TYPE_IPV4:
      entered = weir_read_ipv4(ctx, at, end, frame);
      break;
    case WEIR_TYPE_IPV6:
      entered = weir_read_ipv6(ctx, at, end, frame);
      break;
    case WEIR_TYPE_ETHERNET:
      entered = weir_read_ethernet(ctx, at, end, frame) == IP;
      break;
    case WEIR_TYPE_MPLS_UNICAST:
    case WEIR_TYPE_MPLS_MULTICAST:
      entered = weir_read_mpls(ctx, at, end, 0, frame) == IP;
      break;
    default:
      break;
  }
  if (entered) frame->incomplete |= frame->packet.has & WEIR_INCOMPLETE;
  return entered;
}

#endif
