#pragma once

#include <immintrin.h>

#include "filter/kernels/common.h"
#include "filter/kernels/find.h"
#include "filter/kernels/kernels.h"

// The exact stage by AVX2: the slots of a bucket are compared side by side. For avx2.cpp alone.
namespace weir::filter {
namespace {

// For avx2.cpp, too.
[[gnu::always_inline]] inline __m256i load(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}

[[gnu::always_inline]] inline __m256i broadcast(uint64_t word) {
  return _mm256_set1_epi64x(static_cast<long long>(word));
}

// In every bucket type the rules are 32-bit words from kRules on, and `overflow` is the word behind them: what a key
// gets that is in no slot.
template <class Bucket>
constexpr unsigned kRules = sizeof(Bucket::key) / 4;

// What a mask of equal lanes says about the slots. held: bit s is 1 when slot s is equal in all its lanes. first: the
// lowest of them; when there is none, the number of slots.
struct SlotsOfMask {
  uint8_t held[256];
  uint8_t first[256];
};

// lanes[s]: the bits of slot s.
template <unsigned kCount>
constexpr SlotsOfMask slots_of_mask(const unsigned (&lanes)[kCount]) {
  SlotsOfMask slots = {};
  for (unsigned mask = 0; mask < 256; mask++) {
    slots.first[mask] = kCount;
    for (unsigned s = kCount; s-- > 0;) {
      if ((mask & lanes[s]) != lanes[s]) continue;
      slots.held[mask] = static_cast<uint8_t>(slots.held[mask] | 1u << s);
      slots.first[mask] = static_cast<uint8_t>(s);
    }
  }
  return slots;
}

[[gnu::always_inline]] inline const uint8_t* bytes_of(const void* bucket) {
  return static_cast<const uint8_t*>(bucket);
}

template <class Bucket>
[[gnu::always_inline]] inline uint32_t rule_of(const Bucket& bucket, unsigned slot) {
  uint32_t rule;
  __builtin_memcpy(&rule, bytes_of(&bucket) + (kRules<Bucket> + slot) * size_t{4}, sizeof rule);
  return rule;
}

// A bit for each of eight lanes.
[[gnu::always_inline]] inline unsigned bits_of_8(__m256i lanes) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(lanes)));
}

// Two words side by side in the lower half.
[[gnu::always_inline]] inline __m128i pair(const uint64_t* low, const uint64_t* high) {
  const __m128d word = _mm_load_sd(reinterpret_cast<const double*>(low));
  return _mm_castpd_si128(_mm_loadh_pd(word, reinterpret_cast<const double*>(high)));
}

// found() of find.h, eight keys at a time.
uint64_t found_in(const uint8_t* held, const uint32_t* rule, unsigned n) {
  const __m256i zero = _mm256_setzero_si256();
  uint64_t missing = 0;
  for (unsigned i = 0; i < n; i += 8) {
    const __m256i holds = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(held + i)));
    const __m256i lacks = _mm256_or_si256(_mm256_cmpeq_epi32(holds, zero), _mm256_cmpeq_epi32(load(rule + i), zero));
    missing |= uint64_t{bits_of_8(lacks)} << i;
  }
  return ~missing;
}

//   lanes of 32 bits   key 0..6, rule 0
struct CompareV4 {
  using Bucket = weir_bucket_v4;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    const __m256i wanted = _mm256_set1_epi32(static_cast<int>(words[0][i]));
    const unsigned equal = bits_of_8(_mm256_cmpeq_epi32(load(bytes_of(&bucket)), wanted));
    return {rule_of(bucket, static_cast<unsigned>(__builtin_ctz(equal | 0x80))), equal & 0x7f};
  }
  static constexpr auto found = found_in;
};

//   lanes of 64 bits   key 0, 1, 2, 3  and  4, rules     packed to 32:  0 1 4 - 2 3 - -
constexpr SlotsOfMask kV4PortSlots = slots_of_mask({0x01u, 0x02u, 0x10u, 0x20u, 0x04u});

struct CompareV4Port {
  using Bucket = weir_bucket_v4_port;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    const __m256i wanted = broadcast(words[0][i]);
    const __m256i low = _mm256_cmpeq_epi64(load(bytes_of(&bucket)), wanted);
    const __m256i high = _mm256_cmpeq_epi64(load(bytes_of(&bucket) + 32), wanted);
    const unsigned equal = bits_of_8(_mm256_packs_epi32(low, high));
    return {rule_of(bucket, kV4PortSlots.first[equal]), equal & 0x37};
  }
  static constexpr auto found = found_in;
};

//   lanes of 64 bits   slot 0, slot 0, slot 1, slot 1  and  2, 2, rules     packed to 32:  0 0 2 2 1 1 - -
constexpr SlotsOfMask kV6Slots = slots_of_mask({0x03u, 0x30u, 0x0cu});

struct CompareV6 {
  using Bucket = weir_bucket_v6;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    const __m256i wanted = _mm256_broadcastsi128_si256(pair(words[0] + i, words[1] + i));
    const __m256i low = _mm256_cmpeq_epi64(load(bytes_of(&bucket)), wanted);
    const __m256i high = _mm256_cmpeq_epi64(load(bytes_of(&bucket) + 32), wanted);
    const unsigned equal = bits_of_8(_mm256_packs_epi32(low, high));
    return {rule_of(bucket, kV6Slots.first[equal]), kV6Slots.held[equal]};
  }
  static constexpr auto found = found_in;
};

//   lanes of 64 bits   slot 0 x 3, word 0 of slot 1  and, from there on,  slot 1 x 3, rules
//   packed to 32:      0 0 1 1 0 - 1 -
constexpr SlotsOfMask kV6PortSlots = slots_of_mask({0x13u, 0x4cu});

struct CompareV6Port {
  using Bucket = weir_bucket_v6_port;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    const __m256i first_two = _mm256_castsi128_si256(pair(words[0] + i, words[1] + i));
    const __m256i wanted = _mm256_blend_epi32(first_two, broadcast(words[2][i]), 0xf0);
    const __m256i low = _mm256_cmpeq_epi64(load(bytes_of(&bucket)), wanted);
    const __m256i high = _mm256_cmpeq_epi64(load(bytes_of(&bucket) + 24), wanted);
    const unsigned equal = bits_of_8(_mm256_packs_epi32(low, high));
    return {rule_of(bucket, kV6PortSlots.first[equal]), kV6PortSlots.held[equal]};
  }
  static constexpr auto found = found_in;
};

// A slot is compared twice, words 0..3 and words 1..4. Of slots 0..3 a byte is left of each 64-bit lane; both halves of
// the vector then hold two of the four lanes of each slot.
struct CompareFlow {
  using Bucket = weir_bucket_flow;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    const __m128i middle = pair(words[2] + i, words[3] + i);
    const __m256i first = _mm256_inserti128_si256(_mm256_castsi128_si256(pair(words[0] + i, words[1] + i)), middle, 1);
    const __m256i last = _mm256_permute4x64_epi64(_mm256_blend_epi32(first, broadcast(words[4][i]), 0x03), 0x39);
    const auto equal = [&](unsigned slot) {
      const uint8_t* key = bytes_of(&bucket) + slot * sizeof bucket.key[0];
      return _mm256_and_si256(_mm256_cmpeq_epi64(load(key), first), _mm256_cmpeq_epi64(load(key + 8), last));
    };
    const __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(equal(0), equal(1)), _mm256_packs_epi32(equal(2), equal(3)));
    const __m128i slots = _mm_and_si128(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    const __m128i all = _mm_cmpeq_epi32(slots, _mm_set1_epi32(-1));
    const auto held = static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(all))) |
                      static_cast<unsigned>(_mm256_testc_si256(equal(4), _mm256_set1_epi32(-1))) << 4;
    return {rule_of(bucket, static_cast<unsigned>(__builtin_ctz(held | 0x20))), held};
  }
  static constexpr auto found = found_in;
};

}  // namespace
}  // namespace weir::filter
