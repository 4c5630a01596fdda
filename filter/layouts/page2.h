/* page2: page -> two different lines of it -> one bit in each of k/2 words of either. Twice the bits of a key spread
 * over twice the lines brings the rate near that of an unblocked filter; the second line costs little, because its
 * page's address translation is there already. */
#ifndef WEIR_FILTER_LAYOUTS_PAGE2_H
#define WEIR_FILTER_LAYOUTS_PAGE2_H

#include "filter/format/hash.h"

#define WEIR_PAGE2_MIN_K 8u /* k: even, so many bits of each key */
#define WEIR_PAGE2_MAX_K 14u

/* Where a key's bits are: the first line comes with the page (hash range over all lines), the second lies `step`
 * (1..63) lines further in the same page, cyclically. In each, the k/2 words from `start` on, cyclically. */
struct weir_page2_place {
  weir_u32 line[2];  /* of the filter */
  weir_u32 words[2]; /* bit w: word w of that line has a bit of this key */
};

/* Bit w: word w is one of `n` (4..7) words from `start` (0..7) on, cyclically. */
static inline weir_u32 weir_page2_words(weir_u32 start, weir_u32 n) {
  const weir_u32 window = ((1u << n) - 1u) << (start & 7u);
  return (window | window >> 8) & 0xffu;
}

static inline struct weir_page2_place weir_page2_locate(weir_u64 hash, weir_u32 lines, weir_u32 k) {
  const weir_u32 mixed = (weir_u32)hash * 0x9e3779b1u; /* 2^32 / golden ratio, odd */
  const weir_u32 step = 1u + ((mixed >> 16) * 63u >> 16);
  struct weir_page2_place place;
  place.line[0] = weir_hash_range(hash, lines);
  place.line[1] = (place.line[0] & ~(WEIR_LINES_PER_PAGE - 1u)) | ((place.line[0] + step) & (WEIR_LINES_PER_PAGE - 1u));
  place.words[0] = weir_page2_words(mixed >> 13, k / 2u);
  place.words[1] = weir_page2_words(mixed >> 10, k / 2u);
  return place;
}

/* Bit (0..63) of word w (0..7) in the first (0) or second (1) line. */
static inline weir_u32 weir_page2_bit(weir_u64 hash, weir_u32 which, weir_u32 w) {
  return ((weir_u32)hash * (which ? weir_salt_b[w & 7u] : weir_salt[w & 7u])) >> 26;
}

/* page: its 512 words, in a filter of `lines` lines, a multiple of 64. */
static inline void weir_page2_mark(weir_u64* page, weir_u32 lines, weir_u32 k, weir_u64 hash) {
  const struct weir_page2_place place = weir_page2_locate(hash, lines, k);
  for (weir_u32 which = 0; which < 2; which++) {
    weir_u64* line = page + (place.line[which] & (WEIR_LINES_PER_PAGE - 1u)) * 8u;
    for (weir_u32 w = 0; w < 8; w++) {
      line[w] |= (weir_u64)(place.words[which] >> w & 1u) << weir_page2_bit(hash, which, w);
    }
  }
}

/* Bit 0: the key's bits in the first (0) or second (1) line are set. */
static inline weir_u64 weir_page2_check_line(const weir_u64* page, struct weir_page2_place place, weir_u64 hash,
                                             weir_u32 which) {
  const weir_u64* line = page + (place.line[which] & (WEIR_LINES_PER_PAGE - 1u)) * 8u;
  weir_u64 all = 1;
  for (weir_u32 w = 0; w < 8; w++) {
    all &= line[w] >> weir_page2_bit(hash, which, w) | (weir_u64)(~place.words[which] >> w & 1u);
  }
  return all;
}

static inline weir_u32 weir_page2_check(const weir_u64* page, weir_u32 lines, weir_u32 k, weir_u64 hash) {
  const struct weir_page2_place place = weir_page2_locate(hash, lines, k);
  return (weir_u32)(weir_page2_check_line(page, place, hash, 0) & weir_page2_check_line(page, place, hash, 1));
}

#endif
