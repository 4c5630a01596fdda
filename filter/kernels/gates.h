#pragma once

#include <immintrin.h>

#include "filter/kernels/kernels.h"

// Gates, for the kernels with AVX2 and more: eight addresses at a time of a direct table, four of words. Static, so
// that every kernel library has its own (kernels.h).
namespace weir::filter {

// lane k: word[at[k]]. Loads, not a gather: as fast where gathers are fast, faster where processors or their microcode
// make them slow, and right in QEMU 7.2, whose emulated gather takes the wrong words when `at` is in register ymm4.
[[gnu::always_inline]] inline __m256i words_at(const int* word, __m256i at) {
  const auto two = [](__m128i places, int half) {
    return static_cast<uint64_t>(half == 0 ? _mm_cvtsi128_si64(places) : _mm_extract_epi64(places, 1));
  };
  const __m128i low = _mm256_castsi256_si128(at), high = _mm256_extracti128_si256(at, 1);
  const uint64_t a = two(low, 0), b = two(low, 1), c = two(high, 0), d = two(high, 1);
  const auto first = [word](uint64_t places) { return word[static_cast<uint32_t>(places)]; };
  const auto second = [word](uint64_t places) { return word[places >> 32]; };
  return _mm256_setr_epi32(first(a), second(a), first(b), second(b), first(c), second(c), first(d), second(d));
}

// Four words that were just written, one store each: a load of all four would wait until the stores are in the cache,
// while a load of one gets it from its store.
[[gnu::always_inline]] inline __m256i four_new(const uint64_t* words) {
  const auto two = [](const uint64_t* at) {
    const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
    return _mm_castpd_si128(_mm_loadh_pd(_mm_castsi128_pd(low), reinterpret_cast<const double*>(at + 1)));
  };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(two(words)), two(words + 2), 1);
}

// One side of eight packets, in host order.
[[gnu::always_inline]] inline __m256i eight_addresses(const uint64_t* addresses, unsigned side) {
  const __m256 first = _mm256_castsi256_ps(four_new(addresses)), last = _mm256_castsi256_ps(four_new(addresses + 4));
  // 0 1 4 5 | 2 3 6 7, and then in their order.
  const __m256 halves = side == 0 ? _mm256_shuffle_ps(first, last, 0x88) : _mm256_shuffle_ps(first, last, 0xdd);
  const __m256i wire = _mm256_permute4x64_epi64(_mm256_castps_si256(halves), 0xd8);
  return _mm256_shuffle_epi8(wire, _mm256_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3,  //
                                                   12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
}

//   lane k:  32-bit word index / 32 of the table, shifted so that the address's bit is the highest
[[gnu::always_inline]] inline uint64_t bits_of_eight(const int* words, __m256i index) {
  const __m256i word = words_at(words, _mm256_srli_epi32(index, 5));
  const __m256i top = _mm256_sllv_epi32(word, _mm256_andnot_si256(index, _mm256_set1_epi32(31)));
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(top)));
}

[[maybe_unused]] static uint64_t gate_v4(const uint64_t* bits, unsigned prefix_bits, const uint64_t* addresses,
                                         unsigned side, unsigned n) {
  const auto* words = reinterpret_cast<const int*>(bits);
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(32 - prefix_bits));
  uint64_t known = 0;
  for (unsigned i = 0; i < n; i += 8) {
    known |= bits_of_eight(words, _mm256_srl_epi32(eight_addresses(addresses + i, side), shift)) << i;
  }
  return n >= kMaxBatch ? known : known & ((uint64_t{1} << n) - 1);
}

// The lower 64 bits of each product.
[[gnu::always_inline]] inline __m256i multiply(__m256i a, __m256i b) {
  const __m256i crossed =
      _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b), _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));
  return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(crossed, 32));
}

//   lane k:  leading value of address k -> its spread -> word number and three bits -> all ones when the word has them
[[gnu::always_inline]] inline uint64_t words_hold_four(const GateWords& table, __m256i leading) {
  const __m256i multiplier = _mm256_set1_epi64x(static_cast<long long>(table.multiplier));
  const __m256i once = multiply(leading, multiplier);
  const __m256i spread = multiply(_mm256_xor_si256(once, _mm256_srli_epi64(once, 32)), multiplier);
  const __m256i high = _mm256_srli_epi64(spread, 32);
  const __m256i word = _mm256_srli_epi64(_mm256_mul_epu32(high, _mm256_set1_epi64x(table.n_words)), 32);

  const __m256i one = _mm256_set1_epi64x(1), below_64 = _mm256_set1_epi64x(63);
  const auto bit_at = [&](__m256i at) { return _mm256_sllv_epi64(one, _mm256_and_si256(at, below_64)); };
  const __m256i bits = _mm256_or_si256(_mm256_or_si256(bit_at(_mm256_srli_epi64(spread, 20)), bit_at(high)),
                                       bit_at(_mm256_srli_epi64(spread, 26)));

  const __m128i low_words = _mm256_castsi256_si128(word), high_words = _mm256_extracti128_si256(word, 1);
  const auto at = [&table](long long number) { return static_cast<long long>(table.words[number]); };
  const __m256i held = _mm256_setr_epi64x(at(_mm_cvtsi128_si64(low_words)), at(_mm_extract_epi64(low_words, 1)),
                                          at(_mm_cvtsi128_si64(high_words)), at(_mm_extract_epi64(high_words, 1)));
  const __m256i is_held = _mm256_cmpeq_epi64(_mm256_and_si256(held, bits), bits);
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(is_held)));
}

[[maybe_unused]] static uint64_t gate_words_v4(const GateWords& table, const uint64_t* addresses, unsigned side,
                                               unsigned n) {
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(32 - table.prefix_bits));
  uint64_t known = 0;
  for (unsigned i = 0; i < n; i += 8) {
    const __m256i leading = _mm256_srl_epi32(eight_addresses(addresses + i, side), shift);
    known |= words_hold_four(table, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(leading))) << i;
    known |= words_hold_four(table, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(leading, 1))) << (i + 4);
  }
  return n >= kMaxBatch ? known : known & ((uint64_t{1} << n) - 1);
}

[[maybe_unused]] static uint64_t gate_words_v6(const GateWords& table, const uint64_t* high, unsigned n) {
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(64 - table.prefix_bits));
  const __m256i reverse = _mm256_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7,  //
                                          8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  uint64_t known = 0;
  for (unsigned i = 0; i < n; i += 4) {
    const __m256i address = _mm256_shuffle_epi8(four_new(high + i), reverse);
    known |= words_hold_four(table, _mm256_srl_epi64(address, shift)) << i;
  }
  return n >= kMaxBatch ? known : known & ((uint64_t{1} << n) - 1);
}

}  // namespace weir::filter
