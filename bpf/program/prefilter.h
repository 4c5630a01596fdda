/* The prefilter: two bits a key, asked for before the hash is made. C subset, shared by inclusion (C++, BPF).
 *
 * A processor that looks at one packet at a time spends as long on SipHash as on all else that a stranger's packet
 * needs. So each shape has a bitmap, too, made from its exact stage when a snapshot is published: where a key's bits
 * are says a multiplication by secret odd numbers (Dietzfelbinger et al., "A reliable randomized algorithm for the
 * closest-pair problem", 1997). A clear bit means that the key is not there. What an attacker could learn of the
 * numbers would cost time and nothing else.
 */
#ifndef WEIR_BPF_PREFILTER_H
#define WEIR_BPF_PREFILTER_H

#include "filter/format/snapshot.h"

#define WEIR_PREFILTER_BITS_PER_KEY 8u

/* Of the key's n_words words, one multiplier each. The high half is what is used. */
static inline weir_u32 weir_prefilter_hash(const weir_u64* multiplier, const weir_u64* words, weir_u32 n_words) {
  weir_u64 sum = 0;
  for (weir_u32 w = 0; w < n_words && w < WEIR_MAX_KEY_WORDS; w++) sum += words[w] * multiplier[w];
  return (weir_u32)(sum >> 32);
}

/* The key's first bit, 0..n_bits-1. */
static inline weir_u32 weir_prefilter_bit(weir_u32 hash, weir_u32 n_bits) {
  return (weir_u32)((weir_u64)hash * n_bits >> 32);
}

/* Both bits, in the word of 64 that has the first. */
static inline weir_u64 weir_prefilter_mask(weir_u32 hash, weir_u32 first_bit) {
  return 1ull << (first_bit & 63) | 1ull << (hash & 63);
}

#endif
