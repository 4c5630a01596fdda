/* line8: page -> one 64-byte line -> one bit in each of its eight 64-bit words. THE definition of the bits: every
 * kernel and the BPF programs set and read exactly these. */
#ifndef WEIR_FILTER_LAYOUTS_LINE8_H
#define WEIR_FILTER_LAYOUTS_LINE8_H

#include "filter/snapshot.h"

/* Odd multipliers, one per word: the salts of the Parquet split-block Bloom filter (Apache Parquet, BloomFilter.md). */
static const weir_u32 weir_line8_salt[8] = {0x47b6137bu, 0x44974d91u, 0x8824ad5bu, 0xa2b7289du,
                                            0x705495c7u, 0x2df1424bu, 0x9efc4947u, 0x5c6bfb31u};

/* Range reduction: hi32(hash) * n >> 32. Lemire 2018, arXiv:1805.10941. Uniform for any n < 2^32, no division. Filter
 * lines and exact buckets both use it: the same order, so they are co-indexed. */
static inline weir_u32 weir_hash_range(weir_u64 hash, weir_u32 n) {
  return (weir_u32)(((hash >> 32) * (weir_u64)n) >> 32);
}

/* Bit (0..63) of word i (0..7): the top six bits of lo32(hash) * salt. */
static inline weir_u32 weir_line8_bit(weir_u64 hash, weir_u32 i) {
  return ((weir_u32)hash * weir_line8_salt[i & 7u]) >> 26;
}

static inline void weir_line8_mark(weir_u64* line, weir_u64 hash) {
  for (weir_u32 i = 0; i < 8; i++) line[i] |= 1ull << weir_line8_bit(hash, i);
}

/* 1 when all eight bits are set. Branch-free (FILTERS 3.1: an early exit is three times slower). */
static inline weir_u32 weir_line8_check(const weir_u64* line, weir_u64 hash) {
  weir_u64 all = 1;
  for (weir_u32 i = 0; i < 8; i++) all &= line[i] >> weir_line8_bit(hash, i);
  return (weir_u32)all;
}

#endif
