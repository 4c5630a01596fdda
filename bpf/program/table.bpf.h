/* Filter and exact stage: the rule of a key. The bits are those of filter/layouts, the buckets those of
 * filter/format/snapshot.h; nothing of them is said twice here. */
#ifndef WEIR_BPF_TABLE_H
#define WEIR_BPF_TABLE_H

#include "bpf/program/maps.bpf.h"
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
      IN_REGISTER(rule_); /* one slot after the other: stacks add up */    \
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
DEFINE_FIND(weir_find_2, weir_bucket_v6, WEIR_SLOTS_V6, WEIR_LINES_PER_PAGE, DIFFERS_2)
DEFINE_FIND(weir_find_3, weir_bucket_v6_port, WEIR_SLOTS_V6_PORT, WEIR_LINES_PER_PAGE, DIFFERS_3)
DEFINE_FIND(weir_find_5, weir_bucket_flow, WEIR_SLOTS_FLOW, FLOW_BUCKETS_PER_PAGE, DIFFERS_5)

/* The page of the exact stage that has a key's bucket. */
static __always_inline struct weir_page* exact_page(weir_u32 group, const struct weir_lookup* lookup, weir_u32 bucket,
                                                    weir_u32 per_page) {
  return page_of(group, lookup->exact_page + bucket / per_page);
}

/* The exact stage: the key's rule, 0 when it has none. A call only where its bucket was full. */
static __always_inline weir_u32 exact_1(weir_u32 group, const struct weir_lookup* lookup, weir_u64 word,
                                        weir_u64 hash) {
  const weir_u32 bucket = weir_hash_range(hash, lookup->exact_buckets);
  const weir_u32 home = bucket % WEIR_LINES_PER_PAGE;
  struct weir_page* page = exact_page(group, lookup, bucket, WEIR_LINES_PER_PAGE);
  if (!page) return 0;
  if (lookup->with_port) return weir_find_v4_port(page, word, hash, home);
  const struct weir_bucket_v4* own = (const struct weir_bucket_v4*)page->word + home;
  weir_u64 rule = 0;
  _Pragma("unroll") for (weir_u32 slot = 0; slot < WEIR_SLOTS_V4; slot++) {
    rule |= own->rule[slot] & if_zero_32(own->key[slot] ^ (weir_u32)word);
  }
  return rule == 0 && own->overflow != 0 ? weir_find_v4(page, word, hash, home) : (weir_u32)rule;
}

#define DEFINE_EXACT(NAME, BUCKET, SLOTS, PER_PAGE, DIFFERS, FIND)                                               \
  static __always_inline weir_u32 NAME(weir_u32 group, const struct weir_lookup* lookup, struct weir_key* key) { \
    const weir_u32 bucket = weir_hash_range(key->hash, lookup->exact_buckets);                                   \
    const weir_u32 home = bucket % (PER_PAGE);                                                                   \
    struct weir_page* page = exact_page(group, lookup, bucket, PER_PAGE);                                        \
    if (!page) return 0;                                                                                         \
    const struct BUCKET* own = (const struct BUCKET*)page->word + home;                                          \
    const weir_u32 rule = RULE_IN_BUCKET(own, SLOTS, DIFFERS);                                                   \
    return rule == 0 && own->overflow != 0 ? FIND(page, key, home) : rule;                                       \
  }

DEFINE_EXACT(exact_2, weir_bucket_v6, WEIR_SLOTS_V6, WEIR_LINES_PER_PAGE, DIFFERS_2, weir_find_2)
DEFINE_EXACT(exact_3, weir_bucket_v6_port, WEIR_SLOTS_V6_PORT, WEIR_LINES_PER_PAGE, DIFFERS_3, weir_find_3)

/* Twenty-five comparisons have no room on the caller's stack. */
static __always_inline weir_u32 exact_5(weir_u32 group, const struct weir_lookup* lookup, struct weir_key* key) {
  const weir_u32 bucket = weir_hash_range(key->hash, lookup->exact_buckets);
  return weir_find_5(exact_page(group, lookup, bucket, FLOW_BUCKETS_PER_PAGE), key, bucket % FLOW_BUCKETS_PER_PAGE);
}

/* The filter pays where most keys are not there, and costs where some are. A lookup's rate of hits of late, 65536 for
 * 1, tells whether to ask it. */
#define ASK_FILTER_BELOW (65536u / 8)
#define RATE_SHIFT 6 /* a packet counts for 1/64 */

static __always_inline weir_u32 next_rate(weir_u32 rate, int is_hit) {
  return rate - (rate >> RATE_SHIFT) + (is_hit ? 65536u >> RATE_SHIFT : 0);
}

#define LET_THROUGH 1u
#define FOUND 2u

static __always_inline int asks_filter(const struct weir_probe* probe) {
  return probe->hit_rate < ASK_FILTER_BELOW;
}

/* Where a lookup counts. */
static __always_inline struct weir_probe* probe_of(struct weir_totals* totals, const struct weir_lookup* lookup) {
  weir_u64 number = lookup->probe % WEIR_PROBES;
  IN_REGISTER(number);
  return &totals->probe[number];
}

/* What became of a key: a mask of the two, of which only the last counts where the filter was not asked. number: of the
 * probe. */
static __always_inline void count_probe(struct weir_totals* totals, struct weir_probe* probe, weir_u32 number,
                                        weir_u64 hash, weir_u32 outcome) {
  const weir_u32 rate = probe->hit_rate;
  probe->hit_rate = next_rate(rate, outcome > LET_THROUGH);
  if (rate >= ASK_FILTER_BELOW) return;
  if (outcome != 0) {
    probe->let_through++;
    probe->found += outcome >> 1;
  }
  /* Not each eighth: the same ones of whatever comes again and again would be sampled. Fibonacci hashing, Knuth 6.4. */
  if ((weir_u32)++probe->asked * 2654435769u > 0xffffffffu / WEIR_SAMPLE_ONE_IN) return;
  IN_REGISTER(totals); /* else the array has a pointer of its own on the stack, before any loop around this */
  totals->sampled[totals->n_sampled++ % WEIR_SAMPLED_KEYS] =
      hash << WEIR_SAMPLED_HASH_SHIFT | (weir_u64)number << 2 | outcome;
}

/* The filters: 0 when the key is not in it. One function for each layout that few policies have: their stacks would add
 * up. */
static __always_inline int line8_holds(weir_u32 group, const struct weir_lookup* lookup, weir_u64 hash) {
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

/* 0: the key is not there; the exact stage need not be asked. */
static __always_inline int filter_holds(weir_u32 group, struct weir_lookup* lookup, weir_u64 hash) {
  switch (lookup->layout) {
    case WEIR_LAYOUT_PAGE2:
      return weir_page2_holds(group, lookup, hash);
    case WEIR_LAYOUT_PAGE7:
      return weir_page7_holds(group, lookup, hash);
    case WEIR_LAYOUT_RIBBON:
      return weir_ribbon_holds(group, lookup, hash);
    default:
      return line8_holds(group, lookup, hash);
  }
}

/* 0: no network of the bitmap holds the address. */
static __always_inline int may_be_network(weir_u32 group, const struct weir_lookup* lookup, weir_u32 address_be) {
  const weir_u32 index = weir_bitmap_index(address_be);
  const struct weir_page* page = page_of(group, lookup->filter_page + (index >> 15));
  return page && weir_bitmap_check((const weir_u8*)page->word, index & 0x7fff);
}

/* The rule of the network that holds the address, 0 when none does. */
__noinline weir_u32 weir_find_network(weir_u32 group, struct weir_lookup* lookup, weir_u32 address_be) {
  if (!lookup || !may_be_network(group, lookup, address_be)) return 0;
  const weir_u32 index = weir_bitmap_index(address_be);
  const weir_u32 high = index >> 8;
  struct weir_page* page = page_of(group, lookup->exact_page + (high >> 10));
  if (!page) return 0;
  const weir_u32 chunk = ((const weir_u32*)page->word)[high & 1023];
  page = page_of(group, lookup->chunks_page + (chunk >> 2));
  if (!page) return 0;
  /* Two steps, not the sum of both: Linux 6.1 does not know how large a 32-bit `or` can get. */
  const weir_u32(*chunks)[256] = (const weir_u32(*)[256])page->word;
  return chunks[chunk & 3][index & 255];
}

#endif
