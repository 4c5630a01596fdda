// AVX-512 F, DQ, BW, VL. Same answers as scalar.cpp, which is the definition.

#include <immintrin.h>

#include <utility>

#include "filter/kernels/kernels.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/line8.h"
#include "filter/siphash.h"

namespace weir::filter {
namespace {

// The lanes of a vector of kLanes that hold keys when `left` keys are left: all, the first few, or none. Masked loads
// and stores do not touch the others' memory.
template <unsigned kLanes>
uint32_t lane_mask(unsigned left) {
  return left >= kLanes ? (1u << kLanes) - 1 : (1u << left) - 1;
}

// --- SipHash-1-3: one key in each of 8 lanes ---------------------------------------------------------------------

//        lane 0   lane 1  ...  lane 7
//   v0   key i    key i+1      key i+7      one State = 8 keys
struct State {
  __m512i v0, v1, v2, v3;
};

[[gnu::always_inline]] inline void sip_round(State& s) {
  s.v0 = _mm512_add_epi64(s.v0, s.v1);
  s.v2 = _mm512_add_epi64(s.v2, s.v3);
  s.v1 = _mm512_xor_si512(_mm512_rol_epi64(s.v1, 13), s.v0);
  s.v3 = _mm512_xor_si512(_mm512_rol_epi64(s.v3, 16), s.v2);
  s.v0 = _mm512_add_epi64(_mm512_rol_epi64(s.v0, 32), s.v3);
  s.v2 = _mm512_add_epi64(s.v2, s.v1);
  s.v3 = _mm512_xor_si512(_mm512_rol_epi64(s.v3, 21), s.v0);
  s.v1 = _mm512_xor_si512(_mm512_rol_epi64(s.v1, 17), s.v2);
  s.v2 = _mm512_rol_epi64(s.v2, 32);
}

[[gnu::always_inline]] inline void sip_start(State& s, const uint64_t secret[2]) {
  s.v0 = _mm512_set1_epi64(static_cast<long long>(secret[0] ^ WEIR_SIP_C0));
  s.v1 = _mm512_set1_epi64(static_cast<long long>(secret[1] ^ WEIR_SIP_C1));
  s.v2 = _mm512_set1_epi64(static_cast<long long>(secret[0] ^ WEIR_SIP_C2));
  s.v3 = _mm512_set1_epi64(static_cast<long long>(secret[1] ^ WEIR_SIP_C3));
}

[[gnu::always_inline]] inline void sip_absorb(State& s, __m512i word) {
  s.v3 = _mm512_xor_si512(s.v3, word);
  sip_round(s);
  s.v0 = _mm512_xor_si512(s.v0, word);
}

[[gnu::always_inline]] inline __m512i sip_result(const State& s) {
  return _mm512_xor_si512(_mm512_xor_si512(s.v0, s.v1), _mm512_xor_si512(s.v2, s.v3));
}

// 8 keys for each State in S = 0, 1, ..., side by side. A round is one dependent chain of about ten operations; four
// States keep the vector units busy in the meantime (FILTERS section 4: 8 lanes x 4). The pack spells the States out:
// g++ keeps an array that a loop walks in memory, and these in registers.
template <unsigned... S>
void siphash13_group(std::integer_sequence<unsigned, S...>, const uint64_t secret[2], const uint64_t* const* words,
                     unsigned n_words, unsigned first, unsigned left, uint64_t* hash) {
  State state[sizeof...(S)];
  const __mmask8 lanes[] = {static_cast<__mmask8>(lane_mask<8>(left > 8 * S ? left - 8 * S : 0))...};
  (sip_start(state[S], secret), ...);
  for (unsigned w = 0; w < n_words; w++) {
    const uint64_t* word = words[w] + first;
    (sip_absorb(state[S], _mm512_maskz_loadu_epi64(lanes[S], word + 8 * S)), ...);
  }
  const __m512i length = _mm512_set1_epi64(static_cast<long long>(uint64_t{n_words * 8} << 56));
  (sip_absorb(state[S], length), ...);
  ((state[S].v2 = _mm512_xor_si512(state[S].v2, _mm512_set1_epi64(0xff))), ...);
  (sip_round(state[S]), ...);
  (sip_round(state[S]), ...);
  (sip_round(state[S]), ...);
  (_mm512_mask_storeu_epi64(hash + first + 8 * S, lanes[S], sip_result(state[S])), ...);
}

void siphash13(const uint64_t secret[2], const uint64_t* const* words, unsigned n_words, unsigned n, uint64_t* hash) {
  constexpr std::make_integer_sequence<unsigned, 4> k32Keys = {};
  constexpr std::make_integer_sequence<unsigned, 1> k8Keys = {};
  unsigned i = 0;
  for (; i + 8 < n; i += 32) siphash13_group(k32Keys, secret, words, n_words, i, n - i, hash);
  if (i < n) siphash13_group(k8Keys, secret, words, n_words, i, n - i, hash);
}

// --- line8: one key's line in one vector ---------------------------------------------------------------------------

size_t line_offset(uint64_t hash, uint32_t n_lines) {
  return size_t{weir_hash_range(hash, n_lines)} * WEIR_LINE_BYTES;
}

void prefetch(const uint8_t* lines, uint32_t n_lines, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) _mm_prefetch(lines + line_offset(hash[i], n_lines), _MM_HINT_T0);
}

//   lane w:  lo32(hash) * salt[w]  >> 26  ->  1 rotated left by that, modulo 64  ->  is this bit of word w clear?
// The product has 64 bits of which the scalar definition keeps the low 32: after the shift, the rotation's modulo 64
// drops the rest. Each key's eight answers are stored as one byte; one test at the end turns 64 bytes into the hit mask
// (a quarter faster than shifting each into place: FILTERS section 3.1).
uint64_t line8_check(const uint8_t* filter, uint32_t filter_lines, const uint64_t* hash, unsigned n) {
  const __m512i salt = _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(weir_line8_salt)));
  const __m512i one = _mm512_set1_epi64(1);
  alignas(64) uint8_t clear_words[kMaxBatch];
  for (unsigned i = 0; i < n; i++) {
    const __m512i line = _mm512_loadu_si512(filter + line_offset(hash[i], filter_lines));
    const __m512i product = _mm512_mul_epu32(_mm512_set1_epi64(static_cast<long long>(hash[i])), salt);
    const __m512i bit = _mm512_rolv_epi64(one, _mm512_srli_epi64(product, 26));
    clear_words[i] = static_cast<uint8_t>(_mm512_testn_epi64_mask(line, bit));
  }
  const __mmask64 keys = n >= kMaxBatch ? ~__mmask64{0} : (__mmask64{1} << n) - 1;
  const __m512i clear = _mm512_maskz_loadu_epi8(keys, clear_words);
  return _mm512_mask_testn_epi8_mask(keys, clear, clear);
}

// --- bitmap: 16 keys in a vector -----------------------------------------------------------------------------------

uint64_t bitmap_check(const uint8_t* bitmap, const uint32_t* index, unsigned n) {
  const __m512i one = _mm512_set1_epi32(1);
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i += 16) {
    const __mmask16 lanes = static_cast<__mmask16>(lane_mask<16>(n - i));
    const __m512i at = _mm512_maskz_loadu_epi32(lanes, index + i);
    const __m512i word =
        _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes, _mm512_srli_epi32(at, 5), bitmap, 4);
    const __m512i bit = _mm512_rolv_epi32(one, at);  // the rotation takes the index modulo 32
    hits |= uint64_t{_mm512_mask_test_epi32_mask(lanes, word, bit)} << i;
  }
  return hits;
}

bool usable() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

constinit const Kernels kAvx512Kernels = {
    .name = "avx512",
    .usable = usable,
    .siphash13 = siphash13,
    .prefetch = prefetch,
    .line8_check = line8_check,
    .bitmap_check = bitmap_check,
};

}  // namespace weir::filter
