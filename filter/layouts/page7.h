/* page7: page -> seven bits anywhere in its 4096 bytes. The page-blocked filter of Zawierucha (docs/develop/papers.md),
 * k = 7 and one page a key: the baseline for everything that blocks by page. */
#ifndef WEIR_FILTER_LAYOUTS_PAGE7_H
#define WEIR_FILTER_LAYOUTS_PAGE7_H

#include "filter/format/hash.h"

#define WEIR_PAGE7_K 7u

/* Bit (0..32767) i (0..6) of the page: the top 15 bits of lo32(hash) * salt. */
static inline weir_u32 weir_page7_bit(weir_u64 hash, weir_u32 i) {
  return ((weir_u32)hash * weir_salt[i & 7u]) >> 17;
}

/* page: its 512 words. */
static inline void weir_page7_mark(weir_u64* page, weir_u64 hash) {
  for (weir_u32 i = 0; i < WEIR_PAGE7_K; i++) {
    const weir_u32 bit = weir_page7_bit(hash, i);
    page[bit >> 6] |= 1ull << (bit & 63u);
  }
}

static inline weir_u32 weir_page7_check(const weir_u64* page, weir_u64 hash) {
  weir_u64 all = 1;
  for (weir_u32 i = 0; i < WEIR_PAGE7_K; i++) {
    const weir_u32 bit = weir_page7_bit(hash, i);
    all &= page[bit >> 6] >> (bit & 63u);
  }
  return (weir_u32)all;
}

#endif
