/* bitmap: the universe itself, one bit per possible key. Used for IPv4 networks of /24 and shorter: 2^24 bits = 2 MiB =
 * one huge page. No false positives, and no hash: a key's "hash" is its index. */
#ifndef WEIR_FILTER_LAYOUTS_BITMAP_H
#define WEIR_FILTER_LAYOUTS_BITMAP_H

#include "filter/format/snapshot.h"

#define WEIR_BITMAP_BITS (1u << 24)
#define WEIR_BITMAP_BYTES (WEIR_BITMAP_BITS / 8u)

/* Index of a v4 /24 key (word 0, canonical bytes: address in network order). */
static inline weir_u32 weir_bitmap_index(weir_u64 key_word) {
  return __builtin_bswap32((weir_u32)key_word) >> 8;
}

static inline void weir_bitmap_mark(weir_u8* bitmap, weir_u32 index) {
  bitmap[index >> 3] = (weir_u8)(bitmap[index >> 3] | 1u << (index & 7u));
}

static inline weir_u32 weir_bitmap_check(const weir_u8* bitmap, weir_u32 index) {
  return bitmap[index >> 3] >> (index & 7u) & 1u;
}

#endif
