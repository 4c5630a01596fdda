/* A frame on its way through the program, and what its bytes mean (docs/operate/dataplane.md, "Frames"). Written apart
 * from filter/frame/frame.cpp: tests hold both to one reference, frame by frame.
 *
 * Plain frames are read where they lie (read_plain, at the end); the other functions read everything else, by offset: a
 * frame may lie in several buffers. They are global functions, which the verifier looks at once, whoever calls them; so
 * each says again what it needs. `at` <= `end` <= the frame's length; nothing from `end` on is read.
 */
#ifndef WEIR_BPF_FRAME_H
#define WEIR_BPF_FRAME_H

/* The helpers need the types of the first. */
/* clang-format off */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

#include "filter/format/frame_rules.h"
#include "filter/format/packet.h"

struct weir_frame {
  struct weir_packet packet; /* the layer that is looked at */
  weir_u32 at, end;          /* what it carries, to the packet's end; at = end = 0: nothing that can be read */
  struct weir_set matched;   /* lists that match this layer */
  weir_u32 length;           /* bytes, without FCS */
  weir_u32 replaced;         /* the base's lookups that the overlay has answered for this layer: a mask */
  weir_u8 group;             /* whose lookups are asked: the base's, or for a while the overlay's */
  weir_u8 overlay;           /* its group; WEIR_NO_OVERLAY */
  weir_u8 sides;             /* whose gates let this layer through: a mask (gate.bpf.h) */
  weir_u8 overlay_sides;     /* the same of the overlay's gates */
  weir_u8 hit;               /* 1: some list matches */
  weir_u8 incomplete;
  weir_u8 of_base; /* while the overlay is asked: group << 4 | sides of the base */
  weir_u8 samples; /* how frames are sampled, a mask of enum weir_sampling << 4; layers that are kept for it */
};

/* Of a frame in tunnels: packets that stand in weir_layers; 0: it has one layer only. */
static __always_inline weir_u32 kept_layers(const struct weir_frame* frame) {
  return frame->samples & 15;
}

enum outcome { MALFORMED, NOT_IP, IP };

static __always_inline weir_u32 be16(const weir_u8* bytes) {
  return (weir_u32)bytes[0] << 8 | bytes[1];
}

/* Ports, TCP flags, ICMP type and code, when their bytes are in the packet. */
__noinline int weir_read_transport(struct xdp_md* ctx, weir_u32 at, weir_u32 end, struct weir_frame* frame) {
  weir_u8 bytes[WEIR_PORT_BYTES] = {};
  if (!frame || at > end) return 0;
  const weir_u32 carried = weir_carries(frame->packet.protocol);
  if (carried & WEIR_HAS_PORTS) {
    if (end - at < WEIR_PORT_BYTES || bpf_xdp_load_bytes(ctx, at, bytes, WEIR_PORT_BYTES)) return 0;
    __builtin_memcpy(frame->packet.port, bytes, WEIR_PORT_BYTES);
    frame->packet.has |= WEIR_HAS_PORTS;
    if (!(carried & WEIR_HAS_TCP_FLAGS) || end - at < WEIR_TCP_FLAG_BYTES) return 0;
    if (bpf_xdp_load_bytes(ctx, at + WEIR_TCP_FLAG_BYTES - 1, bytes, 1)) return 0;
    frame->packet.tcp_flags = bytes[0];
    frame->packet.has |= WEIR_HAS_TCP_FLAGS;
  } else if (carried) {
    if (end - at < 1 || bpf_xdp_load_bytes(ctx, at, bytes, 1)) return 0;
    frame->packet.icmp_type = bytes[0];
    frame->packet.has |= WEIR_HAS_ICMP_TYPE;
    if (end - at < 2 || bpf_xdp_load_bytes(ctx, at + 1, bytes, 1)) return 0;
    frame->packet.icmp_code = bytes[0];
    frame->packet.has |= WEIR_HAS_ICMP_CODE;
  }
  return 0;
}

/* 1: the header is trusted. */
__noinline int weir_read_ipv4(struct xdp_md* ctx, weir_u32 at, weir_u32 end, struct weir_frame* frame) {
  weir_u8 ip[WEIR_IPV4_BYTES] __attribute__((aligned(8))) = {};
  if (!frame || at > end || end - at < WEIR_IPV4_BYTES || bpf_xdp_load_bytes(ctx, at, ip, WEIR_IPV4_BYTES)) return 0;
  const weir_u32 header_bytes = (ip[0] & 15u) * 4;
  if (ip[0] >> 4 != 4 || header_bytes < WEIR_IPV4_BYTES || header_bytes > end - at) return 0;
  const weir_u32 total = be16(ip + 2);
  if (total != 0 && total < header_bytes) return 0;

  frame->packet.family = 4;
  frame->packet.protocol = ip[9];
  frame->packet.has = 0;
  weir_u32 address[2];
  __builtin_memcpy(address, ip + 12, sizeof address);
  frame->packet.address[WEIR_SIDE_SOURCE][0] = address[0];
  frame->packet.address[WEIR_SIDE_DESTINATION][0] = address[1];
  frame->packet.length = total != 0 ? total : end - at;
  frame->packet.dscp = ip[1] >> 2;
  frame->packet.fragment = weir_fragment_of_ipv4(be16(ip + 6));
  if (total != 0 && total < end - at) end = at + total;
  frame->at = frame->end = 0;
  if (frame->packet.fragment == WEIR_FRAGMENT_LATER) return 1;
  frame->at = at + header_bytes;
  frame->end = end;
  weir_read_transport(ctx, at + header_bytes, end, frame);
  return 1;
}

/* One step along a chain of extension headers. Returns the bytes walked; 0: the chain ends here, and ~0: what is walked
 * is cut off; with STEP_LAST, what follows is data of a fragmented packet. */
#define STEP_CUT_OFF 0xffffffffu
#define STEP_LAST 0x80000000u
__noinline weir_u32 weir_walk_extension(struct xdp_md* ctx, weir_u32 at, weir_u32 end, struct weir_frame* frame) {
  weir_u8 head[4] = {};
  if (!frame || at > end) return 0;
  const weir_u32 number = frame->packet.protocol;
  if (weir_extension_bytes(number, 0) == 0) return 0;
  if (end - at < 8 || bpf_xdp_load_bytes(ctx, at, head, sizeof head)) return STEP_CUT_OFF;
  const weir_u32 bytes = weir_extension_bytes(number, head[1]);
  if (bytes > end - at) return STEP_CUT_OFF;
  frame->packet.protocol = head[0];
  if (number != 44) return bytes;
  const weir_u8 fragment = weir_fragment_of_ipv6(be16(head + 2));
  if (fragment != WEIR_FRAGMENT_NONE) frame->packet.fragment = fragment;
  return fragment == WEIR_FRAGMENT_LATER ? STEP_LAST : bytes;
}

/* 1: the header is trusted. */
__noinline int weir_read_ipv6(struct xdp_md* ctx, weir_u32 at, weir_u32 end, struct weir_frame* frame) {
  weir_u8 ip[8] = {};
  if (!frame || at > end || end - at < WEIR_IPV6_BYTES || bpf_xdp_load_bytes(ctx, at, ip, sizeof ip)) return 0;
  if (ip[0] >> 4 != 6) return 0;
  if (bpf_xdp_load_bytes(ctx, at + 8, frame->packet.address, 32)) return 0; /* no room on the stack to go by there */
  frame->packet.family = 6;
  frame->packet.protocol = ip[6];
  frame->packet.has = 0;
  const weir_u32 told = be16(ip + 4);
  frame->packet.length = told != 0 ? WEIR_IPV6_BYTES + told : end - at;
  frame->packet.dscp = (weir_u8)((be16(ip) & 0x0fff) >> 6);
  frame->packet.fragment = WEIR_FRAGMENT_NONE;
  at += WEIR_IPV6_BYTES;
  if (told != 0 && told < end - at) end = at + told;
  frame->at = frame->end = 0;
  for (weir_u32 walked = 0; walked <= WEIR_MAX_EXTENSIONS; walked++) {
    /* The last turn only asks whether the chain goes on. */
    if (walked == WEIR_MAX_EXTENSIONS && weir_extension_bytes(frame->packet.protocol, 0) != 0) break;
    const weir_u32 step = weir_walk_extension(ctx, at, end, frame);
    if (step == STEP_CUT_OFF) break;
    if (step == STEP_LAST) return 1;
    if (step == 0) {
      frame->at = at;
      frame->end = end;
      weir_read_transport(ctx, at, end, frame);
      return 1;
    }
    at += step;
  }
  frame->packet.has |= WEIR_INCOMPLETE;
  return 1;
}

/* RFC 1071 sum over a header that was read before. */
__noinline int weir_ipv4_checksum_holds(struct xdp_md* ctx, weir_u32 at) {
  weir_u8 word[4] = {};
  weir_u32 sum = 0;
  if (bpf_xdp_load_bytes(ctx, at, word, 1)) return 0;
  const weir_u32 words = word[0] & 15u;
  for (weir_u32 i = 0; i < 15; i++) {
    if (i == words) break;
    if (bpf_xdp_load_bytes(ctx, at + i * 4, word, sizeof word)) return 0;
    sum += be16(word) + be16(word + 2);
  }
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

/* Where the labels end that begin at `at` (not 0), behind so many tags; 0: malformed. */
__noinline weir_u32 weir_walk_labels(struct xdp_md* ctx, weir_u32 at, weir_u32 end, weir_u32 tags) {
  weir_u8 label[WEIR_TAG_BYTES] = {};
  if (at > end) return 0;
  for (weir_u32 i = 0; i <= WEIR_MAX_TAGS; i++) {
    if (++tags > WEIR_MAX_TAGS || end - at < WEIR_TAG_BYTES || bpf_xdp_load_bytes(ctx, at, label, WEIR_TAG_BYTES))
      return 0;
    at += WEIR_TAG_BYTES;
    if (label[2] & 1) break; /* the bottom of the stack */
  }
  return at;
}

/* Labels from `at` on, behind so many tags, and what is behind them. Only the first nibble tells what that is, and it
 * may be a pseudowire's: an IPv4 header must also hold its checksum. */
__noinline int weir_read_mpls(struct xdp_md* ctx, weir_u32 at, weir_u32 end, weir_u32 tags, struct weir_frame* frame) {
  weir_u8 first = 0;
  if (!frame) return MALFORMED;
  at = weir_walk_labels(ctx, at, end, tags);
  if (at == 0) return MALFORMED;
  if (at >= end || bpf_xdp_load_bytes(ctx, at, &first, 1)) return NOT_IP;
  if (first >> 4 == 4) return weir_read_ipv4(ctx, at, end, frame) && weir_ipv4_checksum_holds(ctx, at) ? IP : NOT_IP;
  return first >> 4 == 6 && weir_read_ipv6(ctx, at, end, frame) ? IP : NOT_IP;
}

__noinline int weir_read_pppoe(struct xdp_md* ctx, weir_u32 at, weir_u32 end, struct weir_frame* frame) {
  weir_u8 head[WEIR_PPPOE_BYTES] = {};
  if (at > end || end - at < WEIR_PPPOE_BYTES || bpf_xdp_load_bytes(ctx, at, head, WEIR_PPPOE_BYTES)) return MALFORMED;
  if (!weir_is_pppoe_data(head[0], head[1])) return NOT_IP;
  const weir_u32 protocol = be16(head + 6);
  at += WEIR_PPPOE_BYTES;
  if (protocol == WEIR_PPP_IPV4) return weir_read_ipv4(ctx, at, end, frame) ? IP : MALFORMED;
  if (protocol == WEIR_PPP_IPV6) return weir_read_ipv6(ctx, at, end, frame) ? IP : MALFORMED;
  return NOT_IP;
}

/* An Ethernet frame from `at`. enum outcome. */
__noinline int weir_read_ethernet(struct xdp_md* ctx, weir_u32 at, weir_u32 end, struct weir_frame* frame) {
  weir_u8 bytes[WEIR_TAG_BYTES] = {};
  if (at > end || end - at < WEIR_ETHERNET_BYTES || bpf_xdp_load_bytes(ctx, at + 12, bytes, 2)) return MALFORMED;
  weir_u32 type = be16(bytes);
  weir_u32 tags = 0;
  at += WEIR_ETHERNET_BYTES;
  /* Tested at its end: were the loop entered in its middle, its body could fall through to there, and Linux 6.1 takes
   * no way back that is not a jump. */
  if (weir_is_vlan(type)) {
    do {
      if (++tags > WEIR_MAX_TAGS || end - at < WEIR_TAG_BYTES || bpf_xdp_load_bytes(ctx, at, bytes, WEIR_TAG_BYTES))
        return MALFORMED;
      type = be16(bytes + 2);
      at += WEIR_TAG_BYTES;
    } while (weir_is_vlan(type));
  }
  switch (type) {
    case WEIR_TYPE_IPV4:
      return weir_read_ipv4(ctx, at, end, frame) ? IP : MALFORMED;
    case WEIR_TYPE_IPV6:
      return weir_read_ipv6(ctx, at, end, frame) ? IP : MALFORMED;
    case WEIR_TYPE_MPLS_UNICAST:
    case WEIR_TYPE_MPLS_MULTICAST:
      return weir_read_mpls(ctx, at, end, tags, frame);
    case WEIR_TYPE_PPPOE_SESSION:
      return weir_read_pppoe(ctx, at, end, frame);
    default:
      return NOT_IP;
  }
}

/* The bytes behind the Ethernet header and the tags, when the first buffer has as many as an IPv4 header; null: it has
 * fewer. *type: what they are, as on the wire. */
static __always_inline const weir_u8* behind_tags(const weir_u8* data, const weir_u8* data_end, weir_u32* type) {
  const weir_u8* ip = data + WEIR_ETHERNET_BYTES;
  if (ip + WEIR_IPV4_BYTES > data_end) return 0;
  *type = *(const weir_u16*)(ip - 2);
  for (weir_u32 tags = 0; tags < WEIR_PLAIN_TAGS; tags++) {
    if (*type == __builtin_bswap16(WEIR_TYPE_IPV4) || !weir_is_vlan(__builtin_bswap16((weir_u16)*type))) break;
    ip += WEIR_TAG_BYTES;
    if (ip + WEIR_IPV4_BYTES > data_end) return 0;
    *type = *(const weir_u16*)(ip - 2);
  }
  return ip;
}

/* The frame that most are, read where it lies: IPv4 or IPv6 behind the Ethernet header and at most WEIR_PLAIN_TAGS
 * tags, no options, no extension headers, no fragment, and all that is read of its transport header there, in the first
 * buffer. 1: frame->packet is complete. */
static __always_inline int read_plain(struct xdp_md* ctx, struct weir_frame* frame) {
  const weir_u8* data = (const weir_u8*)(long)ctx->data;
  const weir_u8* data_end = (const weir_u8*)(long)ctx->data_end;
  struct weir_packet* packet = &frame->packet;
  weir_u32 type;
  const weir_u8* ip = behind_tags(data, data_end, &type);
  if (!ip || ip + WEIR_IPV4_BYTES + WEIR_PORT_BYTES > data_end) return 0;
  const weir_u32 at = (weir_u32)(ip - data), length = (weir_u32)(data_end - ip);
  const weir_u8* transport;
  weir_u32 carried; /* bytes of the transport header and what is behind it */
  if (type == __builtin_bswap16(WEIR_TYPE_IPV4)) {
    const weir_u32 total = __builtin_bswap16(*(const weir_u16*)(ip + 2));
    const weir_u32 fragment = *(const weir_u16*)(ip + 6) & __builtin_bswap16(0x3fff);
    if (ip[0] != 0x45 || fragment != 0) return 0;
    if (total < WEIR_IPV4_BYTES + WEIR_PORT_BYTES || total > length) return 0;
    carried = total - WEIR_IPV4_BYTES;
    packet->family = 4;
    packet->protocol = ip[9];
    packet->length = total;
    packet->dscp = ip[1] >> 2;
    packet->address[WEIR_SIDE_SOURCE][0] = *(const weir_u32*)(ip + 12);
    packet->address[WEIR_SIDE_DESTINATION][0] = *(const weir_u32*)(ip + 16);
    transport = ip + WEIR_IPV4_BYTES;
    frame->at = at + WEIR_IPV4_BYTES;
    frame->end = at + total;
  } else if (type == __builtin_bswap16(WEIR_TYPE_IPV6)) {
    if (ip + WEIR_IPV6_BYTES + WEIR_PORT_BYTES > data_end) return 0;
    const weir_u32 told = __builtin_bswap16(*(const weir_u16*)(ip + 4));
    if (ip[0] >> 4 != 6 || weir_extension_bytes(ip[6], 0) != 0) return 0;
    if (told < WEIR_PORT_BYTES || told > length - WEIR_IPV6_BYTES) return 0;
    carried = told;
    packet->family = 6;
    packet->protocol = ip[6];
    packet->length = WEIR_IPV6_BYTES + told;
    packet->dscp = (weir_u8)((__builtin_bswap16(*(const weir_u16*)ip) & 0x0fff) >> 6);
    for (weir_u32 half = 0; half < 4; half++)
      packet->address[half / 2][half % 2] = *(const weir_u64*)(ip + 8 + half * 8);
    transport = ip + WEIR_IPV6_BYTES;
    frame->at = at + WEIR_IPV6_BYTES;
    frame->end = at + WEIR_IPV6_BYTES + told;
  } else {
    return 0;
  }
  packet->port[WEIR_SIDE_SOURCE] = *(const weir_u16*)transport;
  packet->port[WEIR_SIDE_DESTINATION] = *(const weir_u16*)(transport + 2);
  packet->icmp_type = transport[0];
  packet->icmp_code = transport[1];
  packet->has = (weir_u8)weir_carries(packet->protocol);
  if (packet->has & WEIR_HAS_TCP_FLAGS) {
    if (carried < WEIR_TCP_FLAG_BYTES || transport + WEIR_TCP_FLAG_BYTES > data_end) return 0;
    packet->tcp_flags = transport[WEIR_TCP_FLAG_BYTES - 1];
  }
  return 1;
}

#endif
