/* SipHash-1-3 of keys made of whole 64-bit words. Aumasson & Bernstein, "SipHash: a fast short-input PRF", 2012
 * (1 compression round, 3 finalisation rounds). C subset: C++ and BPF share it. Little-endian words, so the result
 * equals the reference implementation's on the same bytes. */
#ifndef WEIR_FILTER_SIPHASH_H
#define WEIR_FILTER_SIPHASH_H

#include "filter/format/snapshot.h"

#define WEIR_SIP_ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
#define WEIR_SIP_ROUND(v0, v1, v2, v3) \
  do {                                 \
    v0 += v1;                          \
    v1 = WEIR_SIP_ROTL(v1, 13);        \
    v1 ^= v0;                          \
    v0 = WEIR_SIP_ROTL(v0, 32);        \
    v2 += v3;                          \
    v3 = WEIR_SIP_ROTL(v3, 16);        \
    v3 ^= v2;                          \
    v0 += v3;                          \
    v3 = WEIR_SIP_ROTL(v3, 21);        \
    v3 ^= v0;                          \
    v2 += v1;                          \
    v1 = WEIR_SIP_ROTL(v1, 17);        \
    v1 ^= v2;                          \
    v2 = WEIR_SIP_ROTL(v2, 32);        \
  } while (0)

/* "somepseudorandomlygeneratedbytes" (section 2.1 of the paper) */
#define WEIR_SIP_C0 0x736f6d6570736575ull
#define WEIR_SIP_C1 0x646f72616e646f6dull
#define WEIR_SIP_C2 0x6c7967656e657261ull
#define WEIR_SIP_C3 0x7465646279746573ull

/* n_words: 1..WEIR_MAX_KEY_WORDS; words of one key, contiguous. */
#ifdef __bpf__ /* a call costs as much as half of it */
__attribute__((always_inline))
#endif
static inline weir_u64
weir_siphash13(const weir_u64 secret[2], const weir_u64* words, weir_u32 n_words) {
  weir_u64 v0 = secret[0] ^ WEIR_SIP_C0, v1 = secret[1] ^ WEIR_SIP_C1;
  weir_u64 v2 = secret[0] ^ WEIR_SIP_C2, v3 = secret[1] ^ WEIR_SIP_C3;
  for (weir_u32 i = 0; i < n_words && i < WEIR_MAX_KEY_WORDS; i++) {
    v3 ^= words[i];
    WEIR_SIP_ROUND(v0, v1, v2, v3);
    v0 ^= words[i];
  }
  const weir_u64 last = (weir_u64)(n_words * 8u) << 56; /* length byte, no left-over bytes */
  v3 ^= last;
  WEIR_SIP_ROUND(v0, v1, v2, v3);
  v0 ^= last;
  v2 ^= 0xff;
  WEIR_SIP_ROUND(v0, v1, v2, v3);
  WEIR_SIP_ROUND(v0, v1, v2, v3);
  WEIR_SIP_ROUND(v0, v1, v2, v3);
  return v0 ^ v1 ^ v2 ^ v3;
}

#endif
