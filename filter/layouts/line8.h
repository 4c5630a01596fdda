/* line8: page -> one 64-byte line -> one bit in each of its eight 64-bit words. THE definition of the bits: every
 * kernel and the BPF programs set and read exactly these. */
#ifndef WEIR_FILTER_LAYOUTS_LINE8_H
#define WEIR_FILTER_LAYOUTS_LINE8_H

#include "filter/format/hash.h"

/* Bit (0..63) of word i (0..7): the top six bits of lo32(hash) * salt. */
static inline weir_u32 weir_line8_bit(weir_u64 hash, weir_u32 i) {
  return ((weir_u32)hash * weir_salt[i & 7u]) >> 26;
}

static inline void weir_line8_mark(weir_u64* line, weir_u64 hash) {
  for (weir_u32 i = 0; i < 8; i++) line[i] |= 1ull << weir_line8_bit(hash, i);
}

/* 1 when all eight bits are set. Branch-free (measured: an early exit is three times slower). */
static inline weir_u32 weir_line8_check(const weir_u64* line, weir_u64 hash) {
  weir_u64 all = 1;
  for (weir_u32 i = 0; i < 8; i++) all &= line[i] >> weir_line8_bit(hash, i);
  return (weir_u32)all;
}

#endif
