/* standard: k bits anywhere in the filter, no blocking (Bloom 1970). The baseline for tests and benchmarks: k lines a
 * key, each from another place of the memory. */
#ifndef WEIR_BENCH_STANDARD_BITS_H
#define WEIR_BENCH_STANDARD_BITS_H

#include "filter/format/hash.h"

#define WEIR_STANDARD_MAX_K 16u

/* Bit i (0..k-1) of the filter, as its line and the bit (0..511) there. The lines are those of double hashing,
 * hi32 + i * lo32 (Kirsch & Mitzenmacher 2006), range-reduced. */
static inline weir_u32 weir_standard_line(weir_u64 hash, weir_u32 lines, weir_u32 i) {
  const weir_u32 spread = (weir_u32)(hash >> 32) + i * ((weir_u32)hash | 1u);
  return (weir_u32)(((weir_u64)spread * lines) >> 32);
}

static inline weir_u32 weir_standard_bit(weir_u64 hash, weir_u32 i) {
  return ((weir_u32)hash * (i < 8u ? weir_salt[i & 7u] : weir_salt_b[i & 7u])) >> 23;
}

static inline void weir_standard_mark(weir_u64* filter, weir_u32 lines, weir_u32 k, weir_u64 hash) {
  for (weir_u32 i = 0; i < k && i < WEIR_STANDARD_MAX_K; i++) {
    const weir_u32 bit = weir_standard_bit(hash, i);
    filter[(weir_u64)weir_standard_line(hash, lines, i) * 8u + (bit >> 6)] |= 1ull << (bit & 63u);
  }
}

static inline weir_u32 weir_standard_check(const weir_u64* filter, weir_u32 lines, weir_u32 k, weir_u64 hash) {
  weir_u64 all = 1;
  for (weir_u32 i = 0; i < k && i < WEIR_STANDARD_MAX_K; i++) {
    const weir_u32 bit = weir_standard_bit(hash, i);
    all &= filter[(weir_u64)weir_standard_line(hash, lines, i) * 8u + (bit >> 6)] >> (bit & 63u);
  }
  return (weir_u32)all;
}

#endif
