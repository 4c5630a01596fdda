/* The filter: what becomes of one frame. Programs of other choices include it (weir.bpf.c, steer.bpf.c). */
#ifndef WEIR_BPF_FILTER_H
#define WEIR_BPF_FILTER_H

#include "bpf/verdict.bpf.h"

/* The frame that most are, read where it lies: IPv4 or IPv6 right behind the Ethernet header, no options, no extension
 * headers, no fragment, and all that is read of its transport header in the first buffer. 1: frame->packet is complete.
 */
static __always_inline int read_plain(struct xdp_md* ctx, struct weir_frame* frame) {
  const weir_u8* data = (const weir_u8*)(long)ctx->data;
  const weir_u8* data_end = (const weir_u8*)(long)ctx->data_end;
  const weir_u32 length = (weir_u32)(data_end - data);
  struct weir_packet* packet = &frame->packet;
  const weir_u8* transport;
  if (data + ETHERNET_BYTES + IPV4_BYTES + TCP_FLAG_BYTES > data_end) return 0;
  const weir_u32 type = *(const weir_u16*)(data + 12); /* as on the wire */
  if (type == __builtin_bswap16(TYPE_IPV4)) {
    const weir_u8* ip = data + ETHERNET_BYTES;
    const weir_u32 total = __builtin_bswap16(*(const weir_u16*)(ip + 2));
    const weir_u32 fragment = *(const weir_u16*)(ip + 6) & __builtin_bswap16(0x3fff);
    if (ip[0] != 0x45 || fragment != 0) return 0;
    if (total < IPV4_BYTES + TCP_FLAG_BYTES || total > length - ETHERNET_BYTES) return 0;
    packet->family = 4;
    packet->protocol = ip[9];
    packet->address[WEIR_SIDE_SOURCE][0] = *(const weir_u32*)(ip + 12);
    packet->address[WEIR_SIDE_DESTINATION][0] = *(const weir_u32*)(ip + 16);
    transport = ip + IPV4_BYTES;
    frame->at = ETHERNET_BYTES + IPV4_BYTES;
    frame->end = ETHERNET_BYTES + total;
  } else if (type == __builtin_bswap16(TYPE_IPV6)) {
    const weir_u8* ip = data + ETHERNET_BYTES;
    if (data + ETHERNET_BYTES + IPV6_BYTES + TCP_FLAG_BYTES > data_end) return 0;
    const weir_u32 told = __builtin_bswap16(*(const weir_u16*)(ip + 4));
    if (ip[0] >> 4 != 6 || extension_bytes(ip[6], 0) != 0) return 0;
    if (told < TCP_FLAG_BYTES || told > length - ETHERNET_BYTES - IPV6_BYTES) return 0;
    packet->family = 6;
    packet->protocol = ip[6];
    for (weir_u32 half = 0; half < 4; half++)
      packet->address[half / 2][half % 2] = *(const weir_u64*)(ip + 8 + half * 8);
    transport = ip + IPV6_BYTES;
    frame->at = ETHERNET_BYTES + IPV6_BYTES;
    frame->end = ETHERNET_BYTES + IPV6_BYTES + told;
  } else {
    return 0;
  }
  packet->port[WEIR_SIDE_SOURCE] = *(const weir_u16*)transport;
  packet->port[WEIR_SIDE_DESTINATION] = *(const weir_u16*)(transport + 2);
  packet->icmp_type = transport[0];
  packet->icmp_code = transport[1];
  packet->tcp_flags = transport[TCP_FLAG_BYTES - 1];
  packet->has = (weir_u8)carries(packet->protocol);
  return 1;
}

/* enum weir_reason. */
static __always_inline weir_u32 judge_frame(struct xdp_md* ctx, const struct weir_group* group,
                                            struct weir_frame* frame) {
  if (!read_plain(ctx, frame)) {
    const int outcome = weir_read_ethernet(ctx, 0, frame->length, frame);
    if (outcome == NOT_IP) return WEIR_NOT_IP;
    if (outcome != IP) {
      return group->unparsed_action == WEIR_DROP ? WEIR_MALFORMED_DROPPED : WEIR_MALFORMED_PASSED;
    }
    frame->incomplete = frame->packet.has & WEIR_INCOMPLETE;
  }
  if (group->tunnels != 0) {
    const weir_u32 tunnel = tunnel_of(&frame->packet, group->tunnels);
    if (tunnel != 0) return weir_judge_layers(ctx, frame, tunnel);
  }
  weir_match(frame);
  if (frame->hit) return weir_judge(frame);
  return group->default_action == WEIR_DROP ? WEIR_DEFAULT_DROPPED : WEIR_DEFAULT_PASSED;
}

static __always_inline int drops(weir_u32 reason) {
  return reason == WEIR_DEFAULT_DROPPED || reason == WEIR_LIST_DROPPED || reason == WEIR_MALFORMED_DROPPED ||
         reason == WEIR_NO_SNAPSHOT_DROPPED;
}

/* XDP_DROP or XDP_PASS. */
static __always_inline int filter(struct xdp_md* ctx) {
  const weir_u32 zero = 0;
  const struct weir_state* state = bpf_map_lookup_elem(&weir_state, &zero);
  struct weir_totals* totals = bpf_map_lookup_elem(&weir_totals, &zero);
  if (!state || !totals) return XDP_PASS;
  struct weir_frame frame = {};
  frame.length = (weir_u32)bpf_xdp_get_buff_len(ctx);
  frame.group = *(const volatile weir_u32*)&state->active; /* once: all that follows is of this generation */
  weir_u32 reason;
  if (state->bypass) {
    reason = WEIR_BYPASSED;
  } else {
    const struct weir_group* group = bpf_map_lookup_elem(&weir_groups, &frame.group);
    if (group) {
      reason = judge_frame(ctx, group, &frame);
    } else {
      reason = state->drop_without_snapshot ? WEIR_NO_SNAPSHOT_DROPPED : WEIR_NO_SNAPSHOT_PASSED;
    }
  }
  if (reason < WEIR_REASONS) add(&totals->reason[reason], frame.length);
  if (frame.incomplete) totals->incomplete++;
  return drops(reason) ? XDP_DROP : XDP_PASS;
}

#endif
