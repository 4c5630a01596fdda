/* The prefilter: one bit a key, asked before the hash is made. C subset, shared by inclusion (C++, BPF).
 *
 * A processor that looks at one packet at a time spends as long on SipHash as on all else that a stranger's packet
 * needs. So each shape has a bitmap, too, made from its exact stage when a snapshot is published: a key's bit is a
 * multiplication by secret odd numbers (Dietzfelbinger et al., "A reliable randomized algorithm for the closest-pair
 * problem", 1997). A clear bit means that the key is not there; a set one, that the filter is to be asked. What an
 * attacker could learn of the numbers would cost time and nothing else.
 */
#ifndef WEIR_BPF_PREFILTER_H
#define WEIR_BPF_PREFILTER_H

#include "filter/snapshot.h"

#define WEIR_PREFILTER_BITS_PER_KEY 8u
#define WEIR_PAGE_BITS (WEIR_PAGE_BYTES * 8u)

/* Of the key's n_words words, one multiplier each. The high half is what is used. */
static inline weir_u32 weir_prefilter_hash(const weir_u64* multiplier, const weir_u64* words, weir_u32 n_words) {
  weir_u64 sum = 0;
  for (weir_u32 w = 0; w < n_words && w < WEIR_MAX_KEY_WORDS; w++) sum += words[w] * multiplier[w];
  return (weir_u32)(sum >> 32);
}

/* Which of the prefilter's n_bits / 64 words has the key's two bits, times 64, plus the first of them. */
static inline weir_u32 weir_prefilter_bit(weir_u32 hash, weir_u32 n_bits) {
  return (weir_u32)((weir_u64)hash * n_bits >> 32);
}

/* The second, 0..63. */
static inline weir_u32 weir_prefilter_second(weir_u32 hash) {
  return hash & 63;
}

#endif
