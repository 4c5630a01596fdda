/* Gates: which sides' lookups may know a packet at all. */
#ifndef WEIR_BPF_GATE_H
#define WEIR_BPF_GATE_H

#include "bpf/program/frame.bpf.h"
#include "bpf/program/maps.bpf.h"
#include "filter/format/gate.h"

/* A mask of sides: 1 << enum weir_side. */
#define WEIR_NO_SIDE 0u
#define WEIR_BOTH_SIDES 3u
#define WEIR_SIDES_UNKNOWN 4u

/* Where gates let most packets through they only cost: a cache line each. So each processor looks at every 64 packets
 * that came to lookups how many there were in all; while it goes around the gates, how many of them a list knows. */
#define LET_THROUGH_AT_ONCE 64u
#define GO_AROUND_ABOVE(let_through, judged) ((let_through)*4 > (judged)*3)
#define STAY_AROUND_ABOVE(listed, judged) ((listed)*8 >= (judged)*5)

static __always_inline void watch_gates(struct weir_totals* totals) {
  if (++totals->let_through % LET_THROUGH_AT_ONCE != 0) return;
  const weir_u64 listed = totals->reason[WEIR_LIST_PASSED].packets + totals->reason[WEIR_LIST_DROPPED].packets;
  const weir_u64 judged =
      listed + totals->reason[WEIR_DEFAULT_PASSED].packets + totals->reason[WEIR_DEFAULT_DROPPED].packets;
  totals->around_gates = totals->around_gates ? STAY_AROUND_ABOVE(listed - totals->listed_before, LET_THROUGH_AT_ONCE)
                                              : GO_AROUND_ABOVE(LET_THROUGH_AT_ONCE, judged - totals->judged_before);
  totals->judged_before = judged;
  totals->listed_before = listed;
}

/* 1: the table has the address's bits, or cannot be read, as lookups are asked then. */
static __always_inline weir_u32 table_holds(weir_u32 group, const struct weir_asked_table* table, weir_u64 multiplier,
                                            weir_u64 address) {
  const struct weir_gate_place place = weir_gate_place_of(table->prefix_bits, table->n_words, multiplier, address);
  const struct weir_page* page = page_of(group, table->page + place.word / WEIR_PAGE_WORDS);
  return !page || (page->word[place.word % WEIR_PAGE_WORDS] & place.bits) == place.bits;
}

/* 1: the gate lets the address through (filter/format/gate.h). */
static __always_inline weir_u32 gate_passes(weir_u32 group, const struct weir_asked_gate* gate, weir_u64 address) {
  if (gate->n_tables == 0) return gate->is_open;
  for (weir_u32 t = 0; t < WEIR_MAX_GATE_TABLES; t++) {
    if (t >= gate->n_tables) break;
    if (table_holds(group, &gate->table[t], gate->multiplier, address)) return 1;
  }
  return 0;
}

/* The sides whose gates let the addresses through: a mask. */
static __always_inline weir_u32 sides_of_v4(weir_u32 group_id, const struct weir_group* group, weir_u32 source_be,
                                            weir_u32 destination_be) {
  const struct weir_asked_gate* gates = &group->gate[weir_gate_number(4, 0)];
  return gate_passes(group_id, gates, weir_gate_address_v4(source_be)) |
         gate_passes(group_id, gates + 1, weir_gate_address_v4(destination_be)) << 1;
}

static __always_inline weir_u32 sides_of_v6(weir_u32 group_id, const struct weir_group* group, weir_u64 source_be,
                                            weir_u64 destination_be) {
  const struct weir_asked_gate* gates = &group->gate[weir_gate_number(6, 0)];
  return gate_passes(group_id, gates, weir_gate_address_v6(source_be)) |
         gate_passes(group_id, gates + 1, weir_gate_address_v6(destination_be)) << 1;
}

static __always_inline weir_u32 sides_of_packet(weir_u32 group_id, const struct weir_group* group,
                                                const struct weir_packet* packet) {
  const weir_u64 source = packet->address[WEIR_SIDE_SOURCE][0];
  const weir_u64 destination = packet->address[WEIR_SIDE_DESTINATION][0];
  return packet->family == 4 ? sides_of_v4(group_id, group, (weir_u32)source, (weir_u32)destination)
                             : sides_of_v6(group_id, group, source, destination);
}

/* The same of a frame that nobody has read yet, from as few of its bytes as it can be told from: a trusted IPv4 or IPv6
 * header behind the Ethernet header and at most WEIR_PLAIN_TAGS tags, and nothing behind it that would be judged or
 * counted for itself. WEIR_SIDES_UNKNOWN: it is no such frame. */
static __always_inline weir_u32 sides_of_frame(struct xdp_md* ctx, weir_u32 group_id, const struct weir_group* group) {
  const weir_u8* data = (const weir_u8*)(long)ctx->data;
  const weir_u8* data_end = (const weir_u8*)(long)ctx->data_end;
  IN_REGISTER(data_end); /* else it is a number of 32 bits for the compiler, and a copy of that is no pointer */
  weir_u32 type;
  const weir_u8* ip = behind_tags(data, data_end, &type);
  if (!ip) return WEIR_SIDES_UNKNOWN;
  if (type == __builtin_bswap16(WEIR_TYPE_IPV4)) {
    const weir_u32 total = __builtin_bswap16(*(const weir_u16*)(ip + 2));
    if (ip[0] != 0x45 || (total != 0 && total < WEIR_IPV4_BYTES)) return WEIR_SIDES_UNKNOWN;
    if (group->tunnels != 0 && weir_tunnels_over(ip[9], group->tunnels) != 0) return WEIR_SIDES_UNKNOWN;
    return sides_of_v4(group_id, group, *(const weir_u32*)(ip + 12), *(const weir_u32*)(ip + 16));
  }
  if (type == __builtin_bswap16(WEIR_TYPE_IPV6)) {
    if (ip + WEIR_IPV6_BYTES > data_end) return WEIR_SIDES_UNKNOWN;
    if (ip[0] >> 4 != 6 || weir_extension_bytes(ip[6], 0) != 0) return WEIR_SIDES_UNKNOWN;
    if (group->tunnels != 0 && weir_tunnels_over(ip[6], group->tunnels) != 0) return WEIR_SIDES_UNKNOWN;
    return sides_of_v6(group_id, group, *(const weir_u64*)(ip + 8), *(const weir_u64*)(ip + 24));
  }
  return WEIR_SIDES_UNKNOWN;
}

/* The sides whose gates of the overlay let a frame through that nobody has read yet: all, where that cannot be told. */
__noinline weir_u32 weir_overlay_sides(struct xdp_md* ctx, weir_u32 overlay) {
  const struct weir_group* group = group_of(overlay);
  const weir_u32 sides = group ? sides_of_frame(ctx, overlay, group) : WEIR_NO_SIDE;
  return sides == WEIR_SIDES_UNKNOWN ? WEIR_BOTH_SIDES : sides;
}

/* Asks the gates about a layer: frame->sides, frame->overlay_sides. */
__noinline int weir_ask_gates(struct weir_frame* frame) {
  const struct weir_group* group = frame ? group_of(frame->group) : 0;
  if (!group) return 0;
  frame->sides = (weir_u8)sides_of_packet(frame->group, group, &frame->packet);
  frame->overlay_sides = WEIR_NO_SIDE;
  const weir_u32 id = frame->overlay;
  const struct weir_group* overlay = id != WEIR_NO_OVERLAY ? group_of(id) : 0;
  if (overlay) frame->overlay_sides = (weir_u8)sides_of_packet(id, overlay, &frame->packet);
  return 0;
}

#endif
