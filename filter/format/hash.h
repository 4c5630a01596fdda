/* What layouts take from a key's 64-bit hash: the high half chooses the place (range reduction), the low half, times
 * odd constants, the bits there. */
#ifndef WEIR_FILTER_LAYOUTS_HASH_H
#define WEIR_FILTER_LAYOUTS_HASH_H

#include "filter/format/snapshot.h"

/* Odd multipliers: the salts of the Parquet split-block Bloom filter (Apache Parquet, BloomFilter.md). */
static const weir_u32 weir_salt[8] = {0x47b6137bu, 0x44974d91u, 0x8824ad5bu, 0xa2b7289du,
                                      0x705495c7u, 0x2df1424bu, 0x9efc4947u, 0x5c6bfb31u};

/* Eight more: the first 32 bits of the fractional parts of the square roots of the first eight primes (FIPS
 * 180-4, 5.3.3), made odd. */
static const weir_u32 weir_salt_b[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef373u, 0xa54ff53bu,
                                        0x510e527fu, 0x9b05688du, 0x1f83d9abu, 0x5be0cd19u};

/* Range reduction: hi32(hash) * n >> 32. Lemire 2018, arXiv:1805.10941. Uniform for any n < 2^32, no division. Filter
 * lines, filter pages and exact buckets all use it: the same order, so they are co-indexed. */
static inline weir_u32 weir_hash_range(weir_u64 hash, weir_u32 n) {
  return (weir_u32)(((hash >> 32) * (weir_u64)n) >> 32);
}

#endif
