/* Keys, filter, exact stage: which lists match a packet. The bits are those of filter/layouts, the buckets those of
 * filter/format/snapshot.h; nothing of them is said twice here. */
#ifndef WEIR_BPF_MATCH_H
#define WEIR_BPF_MATCH_H

#include "bpf/program/frame.bpf.h"
#include "bpf/program/maps.bpf.h"
#include "bpf/program/prefilter.h"
#include "filter/format/residual.h"
#include "filter/format/siphash.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/line8.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"
#include "filter/layouts/ribbon.h"

struct weir_key {
  weir_u64 word[WEIR_MAX_KEY_WORDS];
  weir_u64 hash;
};

/* All ones when x is 0, else 0. No branch: the keys of a bucket come at random. */
static __always_inline weir_u64 if_zero(weir_u64 x) {
  return ((x | -x) >> 63) - 1;
}

/* The same of 32 bits, in two instructions that no compiler makes a branch of. */
static __always_inline weir_u64 if_zero_32(weir_u32 x) {
  return ((weir_u64)x - 1) >> 32;
}

/* The rule of the key in one bucket, 0 when it is not there. A free slot has rule 0, and may hold any bytes. */
#define RULE_IN_BUCKET(bucket, slots, differs_in)                          \
  ({                                                                       \
    weir_u64 rule_ = 0;                                                    \
    _Pragma("unroll") for (weir_u32 slot_ = 0; slot_ < (slots); slot_++) { \
      rule_ |= (bucket)->rule[slot_] & if_zero(differs_in(bucket, slot_)); \
    }                                                                      \
    (weir_u32) rule_;                                                      \
  })

/* Walks the buckets of a page from the key's own on, as far as their overflow bits lead: at most once around. */
#define WALK_BUCKETS(BUCKET, SLOTS, PER_PAGE, DIFFERS, hash)                                           \
  const weir_u32 overflow_bit = 1u << ((weir_u32)(hash) >> 27);                                        \
  for (weir_u32 step = 0; step < (PER_PAGE); step++) {                                                 \
    const struct BUCKET* bucket = (const struct BUCKET*)page->word + ((home + step) & ((PER_PAGE)-1)); \
    const weir_u32 rule = RULE_IN_BUCKET(bucket, SLOTS, DIFFERS);                                      \
    if (rule != 0 || !(bucket->overflow & overflow_bit)) return rule;                                  \
  }                                                                                                    \
  return 0;

/* Keys of one word. */
#define DEFINE_FIND_WORD(NAME, BUCKET, SLOTS)                                                     \
  __noinline weir_u32 NAME(struct weir_page* page, weir_u64 word, weir_u64 hash, weir_u32 home) { \
    if (!page) return 0;                                                                          \
    WALK_BUCKETS(BUCKET, SLOTS, WEIR_LINES_PER_PAGE, DIFFERS_1, hash)                             \
  }

#define DEFINE_FIND(NAME, BUCKET, SLOTS, PER_PAGE, DIFFERS)                               \
  __noinline weir_u32 NAME(struct weir_page* page, struct weir_key* key, weir_u32 home) { \
    if (!page || !key) return 0;                                                          \
    WALK_BUCKETS(BUCKET, SLOTS, PER_PAGE, DIFFERS, key->hash)                             \
  }

#define DIFFERS_1(bucket, slot) ((bucket)->key[slot] ^ word)
#define DIFFERS_2(bucket, slot) (((bucket)->key[slot][0] ^ key->word[0]) | ((bucket)->key[slot][1] ^ key->word[1]))
#define DIFFERS_3(bucket, slot) (DIFFERS_2(bucket, slot) | ((bucket)->key[slot][2] ^ key->word[2]))
#define DIFFERS_5(bucket, slot) \
  (DIFFERS_3(bucket, slot) | ((bucket)->key[slot][3] ^ key->word[3]) | ((bucket)->key[slot][4] ^ key->word[4]))
#define FLOW_BUCKETS_PER_PAGE 16u

DEFINE_FIND_WORD(weir_find_v4, weir_bucket_v4, WEIR_SLOTS_V4)
DEFINE_FIND_WORD(weir_find_v4_port, weir_bucket_v4_port, WEIR_SLOTS_V4_PORT)
DEFINE_FIND(weir_find_v6, weir_bucket_v6, WEIR_SLOTS_V6, WEIR_LINES_PER_PAGE, DIFFERS_2)
DEFINE_FIND(weir_find_v6_port, weir_bucket_v6_port, WEIR_SLOTS_V6_PORT, WEIR_LINES_PER_PAGE, DIFFERS_3)
DEFINE_FIND(weir_find_flow, weir_bucket_flow, WEIR_SLOTS_FLOW, FLOW_BUCKETS_PER_PAGE, DIFFERS_5)

/* The exact stage: the key's rule, 0 when it has none. */
__noinline weir_u32 weir_exact(weir_u32 group, struct weir_lookup* lookup, struct weir_key* key) {
  if (!lookup || !key) return 0;
  const weir_u32 bucket = weir_hash_range(key->hash, lookup->exact_buckets);
  const weir_u32 per_page = lookup->n_words == 5 ? FLOW_BUCKETS_PER_PAGE : WEIR_LINES_PER_PAGE;
  struct weir_page* page = page_of(group, lookup->exact_page + bucket / per_page);
  const weir_u32 home = bucket % per_page;
  switch (lookup->n_words) {
    case 1:
      return lookup->with_port ? weir_find_v4_port(page, key->word[0], key->hash, home)
                               : weir_find_v4(page, key->word[0], key->hash, home);
    case 2:
      return weir_find_v6(page, key, home);
    case 3:
      return weir_find_v6_port(page, key, home);
    default:
      return weir_find_flow(page, key, home);
  }
}

/* The rule of a network: the bitmap tells whether there is one. */
__noinline weir_u32 weir_find_network(weir_u32 group, struct weir_lookup* lookup, weir_u32 address_be) {
  if (!lookup) return 0;
  const weir_u32 index = weir_bitmap_index(address_be);
  struct weir_page* page = page_of(group, lookup->filter_page + (index >> 15));
  if (!page || !weir_bitmap_check((const weir_u8*)page->word, index & 0x7fff)) return 0;
  const weir_u32 high = index >> 8;
  page = page_of(group, lookup->exact_page + (high >> 10));
  if (!page) return 0;
  const weir_u32 chunk = ((const weir_u32*)page->word)[high & 1023];
  page = page_of(group, lookup->chunks_page + (chunk >> 2));
  if (!page) return 0;
  /* Two steps, not the sum of both: Linux 6.1 does not know how large a 32-bit `or` can get. */
  const weir_u32(*chunks)[256] = (const weir_u32(*)[256])page->word;
  return chunks[chunk & 3][index & 255];
}

/* The filters: 0 when the key is not in it. One function a layout: their stacks would add up. */
__noinline int weir_line8_holds(weir_u32 group, struct weir_lookup* lookup, weir_u64 hash) {
  if (!lookup) return 0;
  const weir_u32 line = weir_hash_range(hash, lookup->filter_lines);
  const struct weir_page* page = page_of(group, lookup->filter_page + line / WEIR_LINES_PER_PAGE);
  return page && weir_line8_check(page->word + line % WEIR_LINES_PER_PAGE * 8, hash);
}

__noinline int weir_page2_holds(weir_u32 group, struct weir_lookup* lookup, weir_u64 hash) {
  if (!lookup) return 0;
  const weir_u32 line = weir_hash_range(hash, lookup->filter_lines);
  const struct weir_page* page = page_of(group, lookup->filter_page + line / WEIR_LINES_PER_PAGE);
  return page && weir_page2_check(page->word, lookup->filter_lines, lookup->k, hash);
}

__noinline int weir_page7_holds(weir_u32 group, struct weir_lookup* lookup, weir_u64 hash) {
  if (!lookup) return 0;
  const weir_u32 pages = lookup->filter_lines / WEIR_LINES_PER_PAGE;
  const struct weir_page* page = page_of(group, lookup->filter_page + weir_hash_range(hash, pages));
  return page && weir_page7_check(page->word, hash);
}

__noinline int weir_ribbon_holds(weir_u32 group, struct weir_lookup* lookup, weir_u64 hash) {
  if (!lookup) return 0;
  const weir_u32 pages = lookup->filter_lines / WEIR_LINES_PER_PAGE;
  const struct weir_page* page = page_of(group, lookup->filter_page + weir_hash_range(hash, pages));
  return page && weir_ribbon_check(page->word, pages, hash);
}

static __always_inline int filter_holds(weir_u32 group, struct weir_lookup* lookup, weir_u64 hash) {
  switch (lookup->layout) {
    case WEIR_LAYOUT_PAGE2:
      return weir_page2_holds(group, lookup, hash);
    case WEIR_LAYOUT_PAGE7:
      return weir_page7_holds(group, lookup, hash);
    case WEIR_LAYOUT_RIBBON:
      return weir_ribbon_holds(group, lookup, hash);
    default:
      return weir_line8_holds(group, lookup, hash);
  }
}

/* 0: the key of a hashed shape is not there. */
static __always_inline int may_hold(weir_u32 group_id, const struct weir_group* group, const struct weir_lookup* lookup,
                                    const weir_u64* words, weir_u32 n_words) {
  const weir_u32 hash = weir_prefilter_hash(group->multiplier, words, n_words);
  const weir_u32 bit = weir_prefilter_bit(hash, lookup->prefilter_bits);
  const struct weir_page* page = page_of(group_id, lookup->prefilter_page + bit / WEIR_PAGE_BITS);
  if (!page) return 0;
  const weir_u64 mask = weir_prefilter_mask(hash, bit);
  return (page->word[bit % WEIR_PAGE_BITS / 64] & mask) == mask;
}

/* The packet's key of a shape, and its hash; 0: it has none, or one that is not there. */
__noinline int weir_make_key(struct weir_frame* frame, struct weir_lookup* lookup, struct weir_key* key) {
  if (!frame || !lookup || !key) return 0;
  const struct weir_packet* packet = &frame->packet;
  const int destination = lookup->side != 0;
  if (lookup->needs_ports && !(packet->has & WEIR_HAS_PORTS)) return 0;
  const struct weir_group* group = group_of(frame->group);
  if (!group) return 0;
  const weir_u64 port = destination ? packet->port[1] : packet->port[0];
  const weir_u64 fields = packet->port[0] | (weir_u64)packet->port[1] << 16 | (weir_u64)packet->protocol << 32;
  if (packet->family == 4) {
    const weir_u64 source_address = (weir_u32)packet->address[0][0];
    const weir_u64 destination_address = (weir_u32)packet->address[1][0];
    if (lookup->flow) {
      key->word[0] = source_address | destination_address << 32;
      key->word[1] = fields;
    } else {
      key->word[0] = (destination ? destination_address : source_address) | port << 32;
    }
  } else if (lookup->flow) {
    key->word[0] = packet->address[0][0];
    key->word[1] = packet->address[0][1];
    key->word[2] = packet->address[1][0];
    key->word[3] = packet->address[1][1];
    key->word[4] = fields;
  } else {
    key->word[0] = destination ? packet->address[1][0] : packet->address[0][0];
    key->word[1] = destination ? packet->address[1][1] : packet->address[0][1];
    key->word[2] = port;
  }
  for (weir_u32 w = 0; w < WEIR_MAX_KEY_WORDS; w++) key->word[w] &= lookup->mask[w];
  if (lookup->layout == WEIR_LAYOUT_BITMAP) return 1;
  if (!may_hold(frame->group, group, lookup, key->word, lookup->n_words)) return 0;
  key->hash = weir_siphash13(group->secret, key->word, lookup->n_words);
  return 1;
}

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

/* The rule of the packet's key of any shape; 0: none. */
__noinline weir_u32 weir_find(struct weir_frame* frame, struct weir_lookup* lookup) {
  if (!frame || !lookup) return 0;
  struct weir_key key = {};
  if (!weir_make_key(frame, lookup, &key)) return 0;
  if (lookup->layout == WEIR_LAYOUT_BITMAP) return weir_find_network(frame->group, lookup, (weir_u32)key.word[0]);
  return filter_holds(frame->group, lookup, key.hash) ? weir_exact(frame->group, lookup, &key) : 0;
}

/* What comes before the exact stage pays where most keys are not there, and costs where most are. A lookup's rate of
 * hits of late, 65536 for 1, tells what to ask. */
#define ASK_PREFILTER_BELOW (65536u * 3 / 4)
#define ASK_FILTER_BELOW (65536u / 8)
#define RATE_SHIFT 6 /* a packet counts for 1/64 */

static __always_inline weir_u32 next_rate(weir_u32 rate, int is_hit) {
  return rate - (rate >> RATE_SHIFT) + (is_hit ? 65536u >> RATE_SHIFT : 0);
}

/* weir_find() for a key of one word in a line8 filter, in one piece: what most packets ask for. */
static __always_inline weir_u32 find_host(struct weir_frame* frame, const struct weir_group* group,
                                          const struct weir_lookup* lookup, weir_u32 rate) {
  const struct weir_packet* packet = &frame->packet;
  weir_u64 word = (weir_u32)packet->address[0][0] | (weir_u64)packet->port[0] << 32;
  if (lookup->side) word = (weir_u32)packet->address[1][0] | (weir_u64)packet->port[1] << 32;
  word &= lookup->mask[0];
  if (lookup->needs_ports && !(packet->has & WEIR_HAS_PORTS)) return 0;
  if (rate < ASK_PREFILTER_BELOW && !may_hold(frame->group, group, lookup, &word, 1)) return 0;
  const weir_u64 hash = weir_siphash13(group->secret, &word, 1);
  struct weir_page* page;
  if (rate < ASK_FILTER_BELOW) {
    const weir_u32 line = weir_hash_range(hash, lookup->filter_lines);
    page = page_of(frame->group, lookup->filter_page + line / WEIR_LINES_PER_PAGE);
    if (!page || !weir_line8_check(page->word + line % WEIR_LINES_PER_PAGE * 8, hash)) return 0;
  }
  const weir_u32 bucket = weir_hash_range(hash, lookup->exact_buckets);
  const weir_u32 home = bucket % WEIR_LINES_PER_PAGE;
  page = page_of(frame->group, lookup->exact_page + bucket / WEIR_LINES_PER_PAGE);
  if (!page) return 0;
  if (lookup->with_port) return weir_find_v4_port(page, word, hash, home);
  const struct weir_bucket_v4* own = (const struct weir_bucket_v4*)page->word + home;
  weir_u64 rule = 0;
  _Pragma("unroll") for (weir_u32 slot = 0; slot < WEIR_SLOTS_V4; slot++) {
    rule |= own->rule[slot] & if_zero_32(own->key[slot] ^ (weir_u32)word);
  }
  return rule == 0 && own->overflow != 0 ? weir_find_v4(page, word, hash, home) : (weir_u32)rule;
}

/* 0: no network of the bitmap holds the address. */
static __always_inline int may_be_network(const struct weir_frame* frame, const struct weir_lookup* lookup) {
  const weir_u64 address = lookup->side ? frame->packet.address[1][0] : frame->packet.address[0][0];
  const weir_u32 index = weir_bitmap_index(address);
  const struct weir_page* page = page_of(frame->group, lookup->filter_page + (index >> 15));
  return page && weir_bitmap_check((const weir_u8*)page->word, index & 0x7fff);
}

/* All lists that match an IPv4 packet: frame->matched. In one piece, because a call costs more than what is called: a
 * return is 6 ns where the kernel makes it safe from speculation (Zen 3). */
static __always_inline void match_v4(struct weir_frame* frame, struct weir_group* group, struct weir_totals* totals) {
  for (weir_u32 i = 0; i < WEIR_MAX_LOOKUPS; i++) {
    if (i >= group->n_v4) break;
    weir_u64 at = i;
    IN_REGISTER(at); /* else each array has a pointer of its own on the stack */
    struct weir_lookup* lookup = &group->v4[at];
    IN_REGISTER(lookup);
    weir_u32 rule = 0;
    if (lookup->layout == WEIR_LAYOUT_LINE8 && lookup->n_words == 1) {
      const weir_u32 rate = totals->hit_rate[at];
      rule = find_host(frame, group, lookup, rate);
      totals->hit_rate[at] = next_rate(rate, rule != 0);
    } else if (lookup->layout != WEIR_LAYOUT_BITMAP || may_be_network(frame, lookup)) {
      rule = weir_find(frame, lookup);
    }
    if (rule == 0) continue;
    const weir_u64 lists = rule < WEIR_SHORT_RULES ? group->lists_of_rule[lookup->side & 1][rule] : 0;
    if (lists != 0) {
      frame->matched.lists[0] |= lists;
      frame->hit = 1;
    } else {
      weir_add_rule(frame, rule, lookup->side);
    }
  }
}

/* All lists that match the layer, whatever it is. */
__noinline int weir_match(struct weir_frame* frame) {
  if (!frame) return 0;
  struct weir_group* group = group_of(frame->group);
  if (!group) return 0;
  const int is_v4 = frame->packet.family == 4;
  const weir_u32 n = is_v4 ? group->n_v4 : group->n_v6;
  for (weir_u32 i = 0; i < WEIR_MAX_LOOKUPS; i++) {
    if (i >= n) break;
    struct weir_lookup* lookup = is_v4 ? &group->v4[i] : &group->v6[i];
    const weir_u32 rule = weir_find(frame, lookup);
    if (rule != 0) weir_add_rule(frame, rule, lookup->side);
  }
  return 0;
}

#endif
