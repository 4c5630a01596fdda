/* Which lists match a packet: its keys, and what their rules say. */
#ifndef WEIR_BPF_MATCH_H
#define WEIR_BPF_MATCH_H

#include "bpf/program/gate.bpf.h"
#include "bpf/program/table.bpf.h"
#include "filter/format/residual.h"
#ifdef WEIR_BESIDE /* two programs judge each frame */
#include "bpf/program/beside.bpf.h"
#endif

static __always_inline void add_set(struct weir_frame* frame, const struct weir_group* group, weir_u32 set_id) {
  struct weir_page* page = page_of(frame->group, group->sets_page + set_id / 128);
  if (!page) return;
  const struct weir_set* set = (const struct weir_set*)page->word + set_id % 128;
  for (weir_u32 w = 0; w < WEIR_LIST_WORDS; w++) frame->matched.lists[w] |= set->lists[w];
  frame->hit = 1;
}

/* Adds the lists of a residual that holds. 1: it is the last of its chain. */
__noinline int weir_ask_residual(struct weir_frame* frame, weir_u32 id, weir_u64 now_unix_s) {
  if (!frame) return 1;
  const struct weir_group* group = group_of(frame->group);
  if (!group) return 1;
  struct weir_page* page = page_of(frame->group, group->residuals_page + id / 32);
  if (!page) return 1;
  const struct weir_residual* residual = (const struct weir_residual*)page->word + id % 32;
  const weir_u32 last = residual->last;
  if (weir_residual_holds(residual, &frame->packet, now_unix_s)) add_set(frame, group, residual->set);
  return last;
}

/* Seconds since 1970, as user space set the clock last: right without it, too, but for what it does not hear of. */
static __always_inline weir_u64 wall_clock(void) {
  const weir_u32 zero = 0;
  const struct weir_state* state = bpf_map_lookup_elem(&weir_state, &zero);
  if (!state) return 0;
#ifdef WEIR_BESIDE
  const weir_u64 now = clock_of_both();
  if (now != 0) return now;
#endif
  if (state->fixed_now_s != 0) return state->fixed_now_s;
  return (bpf_ktime_get_boot_ns() + state->clock_offset_ns) / 1000000000ull;
}

/* Adds the lists of a key's rule. */
__noinline int weir_add_rule(struct weir_frame* frame, weir_u32 id, weir_u32 side) {
  if (!frame) return 0;
  const struct weir_group* group = group_of(frame->group);
  if (!group) return 0;
  struct weir_page* page = page_of(frame->group, group->rules_page + id / 256);
  if (!page) return 0;
  const struct weir_rule* rule = (const struct weir_rule*)page->word + id % 256;
  const weir_u32 set_id = side ? rule->destination_set : rule->source_set;
  const weir_u32 chain = side ? rule->destination_chain : rule->source_chain;
  if (set_id != 0) add_set(frame, group, set_id);
  if (chain == 0) return 0;
  const weir_u64 now = wall_clock();
  for (weir_u32 i = 0; i < WEIR_MAX_CHAIN; i++) {
    if (weir_ask_residual(frame, chain + i, now)) break;
  }
  return 0;
}

static __always_inline void add_rule(struct weir_frame* frame, const struct weir_group* group,
                                     const struct weir_lookup* lookup, weir_u32 rule) {
  const weir_u64 lists = rule < WEIR_SHORT_RULES ? group->lists_of_rule[lookup->side & 1][rule] : 0;
  if (lists != 0) {
    frame->matched.lists[0] |= lists;
    frame->hit = 1;
  } else {
    weir_add_rule(frame, rule, lookup->side);
  }
}

/* The packet's key of a shape: its words. */
static __always_inline void make_key(const struct weir_packet* packet, const struct weir_lookup* lookup,
                                     struct weir_key* key) {
  const int destination = lookup->side != 0;
  const weir_u64 port = destination ? packet->port[1] : packet->port[0];
  const weir_u64 fields = packet->port[0] | (weir_u64)packet->port[1] << 16 | (weir_u64)packet->protocol << 32;
  if (lookup->flow) {
    if (packet->family == 4) {
      key->word[0] = (weir_u32)packet->address[0][0] | packet->address[1][0] << 32;
      key->word[1] = fields;
    } else {
      for (weir_u32 w = 0; w < 4; w++) key->word[w] = packet->address[w / 2][w % 2];
      key->word[4] = fields;
    }
  } else {
    const weir_u64 high = destination ? packet->address[1][0] : packet->address[0][0];
    if (packet->family == 4) {
      key->word[0] = (weir_u32)high | port << 32;
    } else {
      key->word[0] = high;
      key->word[1] = destination ? packet->address[1][1] : packet->address[0][1];
      key->word[2] = port;
    }
  }
  for (weir_u32 w = 0; w < WEIR_MAX_KEY_WORDS; w++) key->word[w] &= lookup->mask[w];
}

static __always_inline weir_u64 hash_of(const struct weir_group* group, const struct weir_key* key, weir_u32 n_words) {
  switch (n_words) {
    case 1:
      return weir_siphash13(group->secret, key->word, 1);
    case 2:
      return weir_siphash13(group->secret, key->word, 2);
    case 3:
      return weir_siphash13(group->secret, key->word, 3);
    default:
      return weir_siphash13(group->secret, key->word, 5);
  }
}

/* The rule of a key of a hashed shape; 0: none. */
static __always_inline weir_u32 exact(weir_u32 group, const struct weir_lookup* lookup, struct weir_key* key) {
  switch (lookup->n_words) {
    case 1:
      return exact_1(group, lookup, key->word[0], key->hash);
    case 2:
      return exact_2(group, lookup, key);
    case 3:
      return exact_3(group, lookup, key);
    default:
      return exact_5(group, lookup, key);
  }
}

/* The same of the packet's key, by way of the filter. Counts. */
__noinline weir_u32 weir_find(struct weir_frame* frame, struct weir_lookup* lookup, struct weir_totals* totals) {
  if (!frame || !lookup || !totals) return 0;
  const struct weir_group* group = group_of(frame->group);
  if (!group) return 0;
  struct weir_key key = {};
  make_key(&frame->packet, lookup, &key);
  key.hash = hash_of(group, &key, lookup->n_words);
  weir_u32 rule = 0, outcome = 0;
  if (!asks_filter(probe_of(totals, lookup)) || filter_holds(frame->group, lookup, key.hash)) {
    rule = exact(frame->group, lookup, &key);
    outcome = rule != 0 ? LET_THROUGH | FOUND : LET_THROUGH;
  }
  count_probe(totals, probe_of(totals, lookup), lookup->probe, key.hash, outcome); /* not kept on the stack */
  return rule;
}

/* The same of an IPv4 address, or address and port, in one piece: what most packets ask for. A call costs more than
 * what is called: a return is 6 ns where the kernel makes it safe from speculation (Zen 3). */
static __always_inline weir_u32 find_host_v4(struct weir_frame* frame, const struct weir_group* group,
                                             struct weir_lookup* lookup, struct weir_totals* totals, weir_u64 number) {
  const struct weir_packet* packet = &frame->packet;
  weir_u64 word = (weir_u32)packet->address[0][0] | (weir_u64)packet->port[0] << 32;
  if (lookup->side) word = (weir_u32)packet->address[1][0] | (weir_u64)packet->port[1] << 32;
  word &= lookup->mask[0];
  const weir_u64 hash = weir_siphash13(group->secret, &word, 1);
  struct weir_probe* probe = &totals->probe[number];
  weir_u32 rule = 0, outcome = 0;
  if (!asks_filter(probe) || line8_holds(frame->group, lookup, hash)) {
    rule = exact_1(frame->group, lookup, word, hash);
    outcome = rule != 0 ? LET_THROUGH | FOUND : LET_THROUGH;
  }
  count_probe(totals, probe, (weir_u32)number, hash, outcome);
  return rule;
}

static __always_inline weir_u32 address_v4(const struct weir_packet* packet, const struct weir_lookup* lookup) {
  return (weir_u32)(lookup->side ? packet->address[1][0] : packet->address[0][0]);
}

/* Whether the packet asks the lookup: it is behind a gate that was open, and needs no ports where there are none. One
 * jump, as what the verifier does doubles with each further short way around a loop, until it has kept a state to
 * compare with: clang 19 made two of them, 827,546 instructions of 1,000,000, and makes 362,793 of this. */
static __always_inline weir_u32 asked_sides(const struct weir_lookup* lookup, const struct weir_frame* frame) {
  _Static_assert(WEIR_HAS_PORTS == 1, "the difference is 0 or -1");
  const weir_u32 lacks_ports = lookup->needs_ports & ~(weir_u32)frame->packet.has;
  return lookup->behind & frame->sides & (lacks_ports - 1);
}

/* All lists that match an IPv4 packet by lookups of frame->sides: frame->matched. */
static __always_inline void match_v4(struct weir_frame* frame, struct weir_group* group, struct weir_totals* totals) {
  for (weir_u32 i = 0; i < WEIR_MAX_LOOKUPS; i++) {
    if (i >= group->n_v4) break;
    weir_u64 at = i;
    IN_REGISTER(at); /* else each array has a pointer of its own on the stack */
    struct weir_lookup* lookup = &group->v4[at];
    IN_REGISTER(lookup);
    if (!asked_sides(lookup, frame)) continue;
    weir_u32 rule;
    if (lookup->layout == WEIR_LAYOUT_BITMAP) {
      const weir_u32 address = address_v4(&frame->packet, lookup);
      rule = may_be_network(frame->group, lookup, address) ? weir_find_network(frame->group, lookup, address) : 0;
    } else {
      const int is_host = lookup->layout == WEIR_LAYOUT_LINE8 && lookup->n_words == 1;
      rule = is_host ? find_host_v4(frame, group, lookup, totals, at) : weir_find(frame, lookup, totals);
    }
    if (rule != 0) add_rule(frame, group, lookup, rule);
  }
}

/* The same of an IPv6 packet. */
static __always_inline void match_v6(struct weir_frame* frame, struct weir_group* group, struct weir_totals* totals) {
  for (weir_u32 i = 0; i < WEIR_MAX_LOOKUPS; i++) {
    if (i >= group->n_v6) break;
    weir_u64 at = i;
    IN_REGISTER(at);
    struct weir_lookup* lookup = &group->v6[at];
    IN_REGISTER(lookup);
    if (!asked_sides(lookup, frame)) continue;
    const weir_u32 rule = weir_find(frame, lookup, totals);
    if (rule != 0) add_rule(frame, group, lookup, rule);
  }
}

/* Adds the lists of all lookups of frame->group and frame->sides, but for those that were replaced before. */
__noinline int weir_match_group(struct weir_frame* frame) {
  if (!frame || frame->sides == WEIR_NO_SIDE) return 0;
  struct weir_group* group = group_of(frame->group);
  const weir_u32 zero = 0;
  struct weir_totals* totals = bpf_map_lookup_elem(&weir_totals, &zero);
  if (!group || !totals) return 0;
  const int is_v4 = frame->packet.family == 4;
  const weir_u32 n = is_v4 ? group->n_v4 : group->n_v6;
  struct weir_lookup* lookups = is_v4 ? group->v4 : group->v6;
  IN_REGISTER(lookups);
  const weir_u32 replaced = frame->replaced;
  for (weir_u32 i = 0; i < WEIR_MAX_LOOKUPS; i++) {
    if (i >= n) break;
    struct weir_lookup* lookup = &lookups[i];
    if (!(asked_sides(lookup, frame) & ((replaced >> i & 1) - 1))) continue;
    const weir_u32 rule = lookup->layout == WEIR_LAYOUT_BITMAP
                              ? weir_find_network(frame->group, lookup, address_v4(&frame->packet, lookup))
                              : weir_find(frame, lookup, totals);
    if (rule == 0) continue;
    frame->replaced |= lookup->replaces;
    weir_add_rule(frame, rule, lookup->side);
  }
  return 0;
}

/* Adds what the overlay says of a layer. 0: it leaves all of the base's lookups as they are; else frame->replaced is
 * theirs that must not be asked. */
static __always_inline weir_u32 match_overlay(struct weir_frame* frame) {
  frame->of_base = (weir_u8)(frame->group << 4 | frame->sides); /* not on the stack: stacks add up */
  frame->replaced = 0;
  frame->group = frame->overlay;
  frame->sides = frame->overlay_sides;
  weir_match_group(frame);
  frame->group = frame->of_base >> 4;
  frame->sides = frame->of_base & 15;
  return frame->replaced;
}

/* A packet that the overlay's gates let through: all lists that match by the overlay, and where that has answered for
 * the base, by the base, too. 1: nothing more is to be asked. */
__noinline int weir_match_overlay(struct weir_frame* frame) {
  if (!frame) return 0;
  if (match_overlay(frame) == 0) return 0;
  weir_match_group(frame);
  return 1;
}

/* All lists that match a layer, whatever it is. No function of its own: stacks add up. No branch either: with one the
 * compiler enters the loop of layers in its middle, and Linux 6.1 takes no way back that is not a jump. */
static __always_inline void match_layer(struct weir_frame* frame) {
  weir_ask_gates(frame);
  match_overlay(frame);
  weir_match_group(frame);
}

#endif
