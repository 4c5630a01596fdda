// AVX2. Same answers as scalar.cpp, which is the definition.

#include <immintrin.h>

#include <utility>

#include "filter/kernels/kernels.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/line8.h"
#include "filter/siphash.h"

namespace weir::filter {
namespace {

// --- SipHash-1-3: one key in each of 4 lanes ---------------------------------------------------------------------

//        lane 0   lane 1   lane 2   lane 3
//   v0   key i    key i+1  key i+2  key i+3      one State = 4 keys
struct State {
  __m256i v0, v1, v2, v3;
};

template <int kBits>
[[gnu::always_inline]] inline __m256i rotate(__m256i x) {
  if constexpr (kBits == 32) return _mm256_shuffle_epi32(x, 0xb1);  // swaps the halves of each word
  if constexpr (kBits == 16) {                                      // moves every byte two places up in its word
    return _mm256_shuffle_epi8(x, _mm256_set_epi8(13, 12, 11, 10, 9, 8, 15, 14, 5, 4, 3, 2, 1, 0, 7, 6,  //
                                                  13, 12, 11, 10, 9, 8, 15, 14, 5, 4, 3, 2, 1, 0, 7, 6));
  }
  return _mm256_or_si256(_mm256_slli_epi64(x, kBits), _mm256_srli_epi64(x, 64 - kBits));
}

[[gnu::always_inline]] inline void sip_round(State& s) {
  s.v0 = _mm256_add_epi64(s.v0, s.v1);
  s.v2 = _mm256_add_epi64(s.v2, s.v3);
  s.v1 = _mm256_xor_si256(rotate<13>(s.v1), s.v0);
  s.v3 = _mm256_xor_si256(rotate<16>(s.v3), s.v2);
  s.v0 = _mm256_add_epi64(rotate<32>(s.v0), s.v3);
  s.v2 = _mm256_add_epi64(s.v2, s.v1);
  s.v3 = _mm256_xor_si256(rotate<21>(s.v3), s.v0);
  s.v1 = _mm256_xor_si256(rotate<17>(s.v1), s.v2);
  s.v2 = rotate<32>(s.v2);
}

[[gnu::always_inline]] inline void sip_start(State& s, const uint64_t secret[2]) {
  s.v0 = _mm256_set1_epi64x(static_cast<long long>(secret[0] ^ WEIR_SIP_C0));
  s.v1 = _mm256_set1_epi64x(static_cast<long long>(secret[1] ^ WEIR_SIP_C1));
  s.v2 = _mm256_set1_epi64x(static_cast<long long>(secret[0] ^ WEIR_SIP_C2));
  s.v3 = _mm256_set1_epi64x(static_cast<long long>(secret[1] ^ WEIR_SIP_C3));
}

[[gnu::always_inline]] inline void sip_absorb(State& s, __m256i word) {
  s.v3 = _mm256_xor_si256(s.v3, word);
  sip_round(s);
  s.v0 = _mm256_xor_si256(s.v0, word);
}

[[gnu::always_inline]] inline __m256i sip_result(const State& s) {
  return _mm256_xor_si256(_mm256_xor_si256(s.v0, s.v1), _mm256_xor_si256(s.v2, s.v3));
}

// All bits set in the lanes that hold keys when `left` keys are left. Masked loads and stores leave the others alone.
__m256i lane_mask(unsigned left) {
  const __m256i lane = _mm256_set_epi64x(3, 2, 1, 0);
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(left), lane);
}

// 4 keys for each State in S = 0, 1, ..., side by side: two States of four vectors fit the 16 registers, and one
// computes while the other waits (FILTERS section 4: 4 lanes x 2).
template <unsigned... S>
void siphash13_group(std::integer_sequence<unsigned, S...>, const uint64_t secret[2], const uint64_t* const* words,
                     unsigned n_words, unsigned first, unsigned left, uint64_t* hash) {
  State state[sizeof...(S)];
  const __m256i lanes[] = {lane_mask(left > 4 * S ? left - 4 * S : 0)...};
  (sip_start(state[S], secret), ...);
  for (unsigned w = 0; w < n_words; w++) {
    const auto* word = reinterpret_cast<const long long*>(words[w] + first);
    (sip_absorb(state[S], _mm256_maskload_epi64(word + 4 * S, lanes[S])), ...);
  }
  const __m256i length = _mm256_set1_epi64x(static_cast<long long>(uint64_t{n_words * 8} << 56));
  (sip_absorb(state[S], length), ...);
  ((state[S].v2 = _mm256_xor_si256(state[S].v2, _mm256_set1_epi64x(0xff))), ...);
  (sip_round(state[S]), ...);
  (sip_round(state[S]), ...);
  (sip_round(state[S]), ...);
  auto* out = reinterpret_cast<long long*>(hash + first);
  (_mm256_maskstore_epi64(out + 4 * S, lanes[S], sip_result(state[S])), ...);
}

void siphash13(const uint64_t secret[2], const uint64_t* const* words, unsigned n_words, unsigned n, uint64_t* hash) {
  constexpr std::make_integer_sequence<unsigned, 2> k8Keys = {};
  for (unsigned i = 0; i < n; i += 8) siphash13_group(k8Keys, secret, words, n_words, i, n - i, hash);
}

// --- line8: one key's line in two vectors --------------------------------------------------------------------------

size_t line_offset(uint64_t hash, uint32_t n_lines) {
  return size_t{weir_hash_range(hash, n_lines)} * WEIR_LINE_BYTES;
}

void prefetch(const uint8_t* lines, uint32_t n_lines, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) _mm_prefetch(lines + line_offset(hash[i], n_lines), _MM_HINT_T0);
}

//   lane w:  lo32(hash) * salt[w], low 32 bits  >> 26  ->  1 << that  ->  is this bit of word w set?
// 1 when it is for all four words of this half of the line.
[[gnu::always_inline]] inline uint32_t check_half(const uint8_t* half, __m256i hash, __m256i salt) {
  const __m256i product = _mm256_mul_epu32(hash, salt);
  const __m256i bit = _mm256_and_si256(_mm256_srli_epi64(product, 26), _mm256_set1_epi64x(63));
  const __m256i wanted = _mm256_sllv_epi64(_mm256_set1_epi64x(1), bit);
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(half));
  return static_cast<uint32_t>(_mm256_testc_si256(words, wanted));
}

uint64_t line8_check(const uint8_t* filter, uint32_t filter_lines, const uint64_t* hash, unsigned n) {
  const __m256i salts = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weir_line8_salt));
  const __m256i low_salt = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(salts));
  const __m256i high_salt = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(salts, 1));
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i++) {
    const uint8_t* line = filter + line_offset(hash[i], filter_lines);
    const __m256i key = _mm256_set1_epi64x(static_cast<long long>(hash[i]));
    const uint32_t all = check_half(line, key, low_salt) & check_half(line + 32, key, high_salt);
    hits |= uint64_t{all} << i;
  }
  return hits;
}

// --- bitmap: one load a key, as the definition ---------------------------------------------------------------------

uint64_t bitmap_check(const uint8_t* bitmap, const uint32_t* index, unsigned n) {
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i++) hits |= uint64_t{weir_bitmap_check(bitmap, index[i])} << i;
  return hits;
}

bool usable() {
  return __builtin_cpu_supports("avx2");
}

}  // namespace

constinit const Kernels kAvx2Kernels = {
    .name = "avx2",
    .usable = usable,
    .siphash13 = siphash13,
    .prefetch = prefetch,
    .line8_check = line8_check,
    .bitmap_check = bitmap_check,
};

}  // namespace weir::filter
