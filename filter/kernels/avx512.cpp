// AVX-512 F, DQ, BW, VL. Same answers as scalar.cpp, which is the definition.

#include <immintrin.h>

#include <utility>

#include "filter/format/siphash.h"
#include "filter/kernels/common.h"
#include "filter/kernels/find.h"
#include "filter/kernels/gates.h"
#include "filter/kernels/kernels.h"
#include "filter/layouts/bitmap.h"

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

// What a key's first round makes of the secret alone, before the key's first word comes in: nearly half of the round.
struct Start {
  __m512i v0, v1, v1_later, v2, v3;
};

[[gnu::always_inline]] inline Start sip_start(const uint64_t secret[2]) {
  const __m512i v0 = _mm512_set1_epi64(static_cast<long long>(secret[0] ^ WEIR_SIP_C0));
  const __m512i v1 = _mm512_set1_epi64(static_cast<long long>(secret[1] ^ WEIR_SIP_C1));
  const __m512i sum = _mm512_add_epi64(v0, v1);
  const __m512i mixed = _mm512_xor_si512(_mm512_rol_epi64(v1, 13), sum);
  return {.v0 = _mm512_rol_epi64(sum, 32),
          .v1 = mixed,
          .v1_later = _mm512_rol_epi64(mixed, 17),
          .v2 = _mm512_set1_epi64(static_cast<long long>(secret[0] ^ WEIR_SIP_C2)),
          .v3 = _mm512_set1_epi64(static_cast<long long>(secret[1] ^ WEIR_SIP_C3))};
}

// The first word: sip_absorb with what Start has already.
[[gnu::always_inline]] inline State sip_first(const Start& start, __m512i word) {
  State s;
  s.v3 = _mm512_xor_si512(start.v3, word);
  s.v2 = _mm512_add_epi64(start.v2, s.v3);
  s.v3 = _mm512_xor_si512(_mm512_rol_epi64(s.v3, 16), s.v2);
  s.v0 = _mm512_add_epi64(start.v0, s.v3);
  s.v2 = _mm512_add_epi64(s.v2, start.v1);
  s.v3 = _mm512_xor_si512(_mm512_rol_epi64(s.v3, 21), s.v0);
  s.v1 = _mm512_xor_si512(start.v1_later, s.v2);
  s.v2 = _mm512_rol_epi64(s.v2, 32);
  s.v0 = _mm512_xor_si512(s.v0, word);
  return s;
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
// States keep the vector units busy in the meantime (8 lanes x 4 measured best). The pack spells the States out:
// g++ keeps an array that a loop walks in memory, and these in registers. between(r), r = 0..3, runs after each of the
// last four rounds: other work, for the core to do in the meantime.
template <unsigned... S, class Between>
[[gnu::always_inline]] inline void siphash13_group(std::integer_sequence<unsigned, S...>, const Start& start,
                                                   const uint64_t* const* words, unsigned n_words, unsigned first,
                                                   unsigned left, uint64_t* hash, Between between) {
  const __mmask8 lanes[] = {static_cast<__mmask8>(lane_mask<8>(left > 8 * S ? left - 8 * S : 0))...};
  State state[] = {sip_first(start, _mm512_maskz_loadu_epi64(lanes[S], words[0] + first + 8 * S))...};
  for (unsigned w = 1; w < n_words; w++) {
    const uint64_t* word = words[w] + first;
    (sip_absorb(state[S], _mm512_maskz_loadu_epi64(lanes[S], word + 8 * S)), ...);
  }
  const __m512i length = _mm512_set1_epi64(static_cast<long long>(uint64_t{n_words * 8} << 56));
  (sip_absorb(state[S], length), ...);
  between(0);
  ((state[S].v2 = _mm512_xor_si512(state[S].v2, _mm512_set1_epi64(0xff))), ...);
  (sip_round(state[S]), ...);
  between(1);
  (sip_round(state[S]), ...);
  between(2);
  (sip_round(state[S]), ...);
  between(3);
  (_mm512_mask_storeu_epi64(hash + first + 8 * S, lanes[S], sip_result(state[S])), ...);
}

void siphash13(const uint64_t secret[2], const uint64_t* const* words, unsigned n_words, unsigned n, uint64_t* hash) {
  constexpr std::make_integer_sequence<unsigned, 4> k32Keys = {};
  constexpr std::make_integer_sequence<unsigned, 1> k8Keys = {};
  const auto nothing = [](unsigned) {};
  const Start start = sip_start(secret);
  unsigned i = 0;
  for (; i + 8 < n; i += 32) siphash13_group(k32Keys, start, words, n_words, i, n - i, hash, nothing);
  if (i < n) siphash13_group(k8Keys, start, words, n_words, i, n - i, hash, nothing);
}

// One byte a key: which of its words lack a bit that it needs. Bytes are stored, and one test at the end turns 64 of
// them into the hit mask: a quarter faster than shifting each into place.
uint64_t hits_of(const uint8_t lacking[kMaxBatch], unsigned n) {
  const __mmask64 keys = n >= kMaxBatch ? ~__mmask64{0} : (__mmask64{1} << n) - 1;
  const __m512i bytes = _mm512_maskz_loadu_epi8(keys, lacking);
  return _mm512_mask_testn_epi8_mask(keys, bytes, bytes);
}

// --- line8: one key's line in one vector ---------------------------------------------------------------------------

// Eight salts of 32 bits, each alone in a 64-bit lane.
[[gnu::always_inline]] inline __m512i widen(const weir_u32 salts[8]) {
  return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(salts)));
}

//   lane w:  lo32(hash) * salt[w]  >> 26  ->  1 rotated left by that, modulo 64
// The product has 64 bits of which the scalar definition keeps the low 32: after the shift, the rotation's modulo 64
// drops the rest.
[[gnu::always_inline]] inline __m512i wanted_bits(uint64_t hash, __m512i salts) {
  const __m512i product = _mm512_mul_epu32(_mm512_set1_epi64(static_cast<long long>(hash)), salts);
  return _mm512_rolv_epi64(_mm512_set1_epi64(1), _mm512_srli_epi64(product, 26));
}

[[gnu::always_inline]] inline uint8_t line8_lacking(const FilterBits& filter, uint64_t hash, __m512i salts) {
  const __m512i line = _mm512_loadu_si512(line_at(filter, weir_hash_range(hash, filter.lines)));
  return static_cast<uint8_t>(_mm512_testn_epi64_mask(line, wanted_bits(hash, salts)));
}

uint64_t line8_check(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  const __m512i salts = widen(weir_salt);
  alignas(64) uint8_t lacking[kMaxBatch];
  for (unsigned i = 0; i < n; i++) lacking[i] = line8_lacking(filter, hash[i], salts);
  return hits_of(lacking, n);
}

void line8_mark(const FilterWords& filter, const uint64_t* hash, unsigned n) {
  const __m512i salts = widen(weir_salt);
  for (unsigned i = 0; i < n; i++) {
    uint64_t* line = filter.words + size_t{weir_hash_range(hash[i], filter.lines)} * 8;
    _mm512_storeu_si512(line, _mm512_or_si512(_mm512_loadu_si512(line), wanted_bits(hash[i], salts)));
  }
}

// Hashes a batch, sixteen keys at a time (two States: with four, the other batches' work would lie too far apart; one
// for a batch of eight or less), and between the rounds does as many keys of the others: whole groups, so it reads on
// in the column of a batch that is shorter. Returns how many keys of each are done.
template <unsigned kGroup, bool kFetch, bool kTest>
unsigned weave_groups(const Line8Step& step, uint8_t lacking[kMaxBatch]) {
  constexpr unsigned kSlice = kGroup / 4;
  constexpr std::make_integer_sequence<unsigned, kGroup / 8> kStates = {};
  const FilterBits fetched = step.fetch_filter, tested = step.test_filter;
  const __m512i salts = widen(weir_salt);
  const Start start = sip_start(step.secret);
  unsigned done = 0;
  for (; done < step.n_hash; done += kGroup) {
    siphash13_group(kStates, start, step.words, step.n_words, done, kGroup, step.hash, [&](unsigned r) {
      for (unsigned i = done + r * kSlice; i < done + (r + 1) * kSlice; i++) {
        if constexpr (kFetch) prefetch_line(line_at(fetched, weir_hash_range(step.fetch_hash[i], fetched.lines)));
        if constexpr (kTest) lacking[i] = line8_lacking(tested, step.test_hash[i], salts);
      }
    });
  }
  return done;
}

template <bool kFetch, bool kTest>
unsigned weave(const Line8Step& step, uint8_t lacking[kMaxBatch]) {
  return step.n_hash <= 8 ? weave_groups<8, kFetch, kTest>(step, lacking)
                          : weave_groups<16, kFetch, kTest>(step, lacking);
}

uint64_t line8_step(const Line8Step& step) {
  alignas(64) uint8_t lacking[kMaxBatch];
  unsigned done = 0;
  if (step.n_hash == 0) {  // nothing to weave the others into
  } else if (step.n_fetch != 0 && step.n_test != 0) {
    done = weave<true, true>(step, lacking);
  } else if (step.n_test != 0) {
    done = weave<false, true>(step, lacking);
  } else if (step.n_fetch != 0) {
    done = weave<true, false>(step, lacking);
  } else {
    siphash13(step.secret, step.words, step.n_words, step.n_hash, step.hash);
  }
  // What is left of both, in turns: a burst of prefetches alone fills the core's miss queue and then waits for it.
  const __m512i salts = widen(weir_salt);
  for (; done < step.n_fetch && done < step.n_test; done++) {
    prefetch_line(line_at(step.fetch_filter, weir_hash_range(step.fetch_hash[done], step.fetch_filter.lines)));
    lacking[done] = line8_lacking(step.test_filter, step.test_hash[done], salts);
  }
  if (done < step.n_fetch) line8_prefetch(step.fetch_filter, step.fetch_hash + done, step.n_fetch - done);
  for (; done < step.n_test; done++) lacking[done] = line8_lacking(step.test_filter, step.test_hash[done], salts);
  return hits_of(lacking, step.n_test);
}

// --- page2: as line8, twice, with the words that a key leaves out masked off ---------------------------------------

uint64_t page2_check(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  const __m512i salts[2] = {widen(weir_salt), widen(weir_salt_b)};
  alignas(64) uint8_t lacking[kMaxBatch];
  for (unsigned i = 0; i < n; i++) {
    const weir_page2_place place = weir_page2_locate(hash[i], filter.lines, filter.k);
    uint32_t lacks = 0;
    for (unsigned which = 0; which < 2; which++) {
      const __m512i line = _mm512_loadu_si512(line_at(filter, place.line[which]));
      const auto words = static_cast<__mmask8>(place.words[which]);
      lacks |= _mm512_mask_testn_epi64_mask(words, line, wanted_bits(hash[i], salts[which]));
    }
    lacking[i] = static_cast<uint8_t>(lacks);
  }
  return hits_of(lacking, n);
}

// --- page7: a gather of the words that hold a key's bits -----------------------------------------------------------

uint64_t page7_check(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  constexpr __mmask8 kWanted = (1u << WEIR_PAGE7_K) - 1;
  const __m256i salts = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weir_salt));
  const __m256i one = _mm256_set1_epi32(1);
  alignas(64) uint8_t lacking[kMaxBatch];
  for (unsigned i = 0; i < n; i++) {
    const __m256i low = _mm256_set1_epi32(static_cast<int>(hash[i]));
    const __m256i bit = _mm256_srli_epi32(_mm256_mullo_epi32(low, salts), 17);
    const __m256i words = _mm256_mmask_i32gather_epi32(_mm256_setzero_si256(), kWanted, _mm256_srli_epi32(bit, 5),
                                                       page_of(filter, hash[i]), 4);
    lacking[i] = _mm256_mask_testn_epi32_mask(kWanted, words, _mm256_rolv_epi32(one, bit));  // modulo 32
  }
  return hits_of(lacking, n);
}

// --- ribbon: two neighbouring lines --------------------------------------------------------------------------------

// Which of the eight lanes have odd parity: halves are folded onto each other down to four bits, and those looked up.
[[gnu::always_inline]] inline uint8_t odd_lanes(__m512i x) {
  x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 32));
  x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 16));
  x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 8));
  x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 4));
  const __m512i odd = _mm512_set1_epi64(0x6996);  // bit v: the parity of the four bits of v
  const __m512i at = _mm512_and_si512(x, _mm512_set1_epi64(15));
  return _mm512_test_epi64_mask(_mm512_srlv_epi64(odd, at), _mm512_set1_epi64(1));
}

uint64_t ribbon_check(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  const uint32_t pages = filter.lines / WEIR_LINES_PER_PAGE;
  alignas(64) uint8_t lacking[kMaxBatch];
  for (unsigned i = 0; i < n; i++) {
    const uint32_t shift = weir_ribbon_start(hash[i], pages) & 63;
    const uint64_t coefficients = weir_ribbon_coefficients(hash[i]);
    const auto in_first = static_cast<long long>(coefficients << shift);
    const auto in_second = static_cast<long long>(coefficients >> 1 >> (63 - shift));
    const uint8_t* first = ribbon_line(filter, hash[i]);
    lacking[i] = odd_lanes(
        _mm512_xor_si512(_mm512_and_si512(_mm512_loadu_si512(first), _mm512_set1_epi64(in_first)),
                         _mm512_and_si512(_mm512_loadu_si512(first + WEIR_LINE_BYTES), _mm512_set1_epi64(in_second))));
  }
  return hits_of(lacking, n);
}

// --- bitmap: 8 keys in a vector ------------------------------------------------------------------------------------

uint64_t bitmap_check(const FilterBits& filter, const uint64_t* index, unsigned n) {
  const __m512i one = _mm512_set1_epi64(1);
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i += 8) {
    const __mmask8 lanes = static_cast<__mmask8>(lane_mask<8>(n - i));
    const __m512i at = _mm512_maskz_loadu_epi64(lanes, index + i);
    const __m512i word =
        _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), lanes, _mm512_srli_epi64(at, 6), filter.bits, 8);
    const __m512i bit = _mm512_rolv_epi64(one, at);  // the rotation takes the index modulo 64
    hits |= uint64_t{_mm512_mask_test_epi64_mask(lanes, word, bit)} << i;
  }
  return hits;
}

// --- exact stage: a whole bucket in one comparison -----------------------------------------------------------------

// Word w, of 32 bits, of a bucket. The word behind the rules is `overflow`: what a key gets that is in no slot.
template <class Bucket>
[[gnu::always_inline]] inline uint32_t word_of(const Bucket& bucket, unsigned w) {
  uint32_t word;
  __builtin_memcpy(&word, reinterpret_cast<const uint8_t*>(&bucket) + size_t{w} * 4, sizeof word);
  return word;
}

template <class Bucket>
constexpr unsigned kRules = sizeof(Bucket::key) / 4;

// found() of find.h.
uint64_t found_in(const uint8_t* held, const uint32_t* rule, unsigned n) {
  uint64_t found = 0;
  for (unsigned i = 0; i < n; i += 16) {
    const __m512i rules = _mm512_loadu_si512(rule + i);
    found |= uint64_t{_mm512_test_epi32_mask(rules, rules)} << i;
  }
  const __m512i holds = _mm512_loadu_si512(held);
  return found & _mm512_test_epi8_mask(holds, holds);
}

[[gnu::always_inline]] inline __m512i broadcast(uint64_t word) {
  return _mm512_set1_epi64(static_cast<long long>(word));
}

// The lanes of `lanes` get another word.
[[gnu::always_inline]] inline __m512i also(__m512i wanted, __mmask8 lanes, uint64_t word) {
  return _mm512_mask_set1_epi64(wanted, lanes, static_cast<long long>(word));
}

// Bit w: word w, of 64 bits, is as wanted.
template <class Bucket>
[[gnu::always_inline]] inline unsigned equal_words(const Bucket& bucket, __m512i wanted) {
  return _mm512_cmpeq_epi64_mask(_mm512_loadu_si512(&bucket), wanted);
}

//   lanes of 32 bits   key 0..6, rule 0
struct CompareV4 {
  using Bucket = weir_bucket_v4;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    const __m256i wanted = _mm256_set1_epi32(static_cast<int>(words[0][i]));
    const __m256i keys = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&bucket));
    const unsigned equal = _mm256_cmpeq_epi32_mask(keys, wanted);
    return {word_of(bucket, kRules<Bucket> + static_cast<unsigned>(__builtin_ctz(equal | 0x80))), equal & 0x7f};
  }
  static constexpr auto found = found_in;
};

//   lanes of 64 bits   key 0..4, rules
struct CompareV4Port {
  using Bucket = weir_bucket_v4_port;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    const unsigned equal = equal_words(bucket, broadcast(words[0][i]));
    return {word_of(bucket, kRules<Bucket> + static_cast<unsigned>(__builtin_ctz(equal | 0x20))), equal & 0x1f};
  }
  static constexpr auto found = found_in;
};

//   lanes of 64 bits   words 0 1 of slot 0, of slot 1, of slot 2, rules
struct CompareV6 {
  using Bucket = weir_bucket_v6;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    const unsigned equal = equal_words(bucket, also(broadcast(words[0][i]), 0x2a, words[1][i]));
    const unsigned slots = equal & equal >> 1 & 0x15;  // the first bit of each slot
    return {word_of(bucket, kRules<Bucket> + static_cast<unsigned>(__builtin_ctz(slots | 0x40)) / 2), slots};
  }
  static constexpr auto found = found_in;
};

//   lanes of 64 bits   words 0 1 2 of slot 0, of slot 1, rules
struct CompareV6Port {
  using Bucket = weir_bucket_v6_port;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    const __m512i first_two = also(broadcast(words[0][i]), 0x12, words[1][i]);
    const unsigned equal = equal_words(bucket, also(first_two, 0x24, words[2][i]));
    const unsigned slots = equal & equal >> 1 & equal >> 2 & 0x09;
    return {word_of(bucket, kRules<Bucket> + 1 - (slots & 1)), slots};
  }
  static constexpr auto found = found_in;
};

//   lanes of 64 bits   0 1 2 3 4 0 1 2 | 3 4 0 1 2 3 4 0 | 1 2 3 4 0 1 2 3 | 4, rules     words of slots 0..4
struct CompareFlow {
  using Bucket = weir_bucket_flow;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    const __m512i first = also(broadcast(words[0][i]), 0x42, words[1][i]);
    const __m512i key = also(also(also(first, 0x84, words[2][i]), 0x08, words[3][i]), 0x10, words[4][i]);
    const __m512i second = _mm512_permutexvar_epi64(_mm512_setr_epi64(3, 4, 0, 1, 2, 3, 4, 0), key);
    const __m512i third = _mm512_permutexvar_epi64(_mm512_setr_epi64(1, 2, 3, 4, 0, 1, 2, 3), key);
    const auto* line = reinterpret_cast<const weir_u64(*)[8]>(&bucket);
    const uint32_t equal = uint32_t{_mm512_cmpeq_epi64_mask(_mm512_loadu_si512(line[0]), key)} |
                           uint32_t{_mm512_cmpeq_epi64_mask(_mm512_loadu_si512(line[1]), second)} << 8 |
                           uint32_t{_mm512_cmpeq_epi64_mask(_mm512_loadu_si512(line[2]), third)} << 16 |
                           uint32_t{line[3][0] == words[4][i]} << 24;
    const uint32_t pairs = equal & equal >> 1;
    const uint32_t slots = pairs & pairs >> 2 & equal >> 4 & 0x108421;  // the first bit of each slot
    const auto slot = static_cast<unsigned>(__builtin_ctz(slots | 1u << 25)) / 5;
    return {word_of(bucket, kRules<Bucket> + slot), slots != 0};
  }
  static constexpr auto found = found_in;
};

// Into a register, and stored whole: where memory is what is compressed into, some processors take a hundred cycles.
void pack(const uint64_t* from, uint64_t wanted, unsigned n, uint64_t* to) {
  for (unsigned i = 0; i < n; i += 8) {
    const auto eight = static_cast<__mmask8>(wanted >> i);
    const __m512i words =
        _mm512_maskz_loadu_epi64(static_cast<__mmask8>(n - i >= 8 ? 0xff : (1u << (n - i)) - 1), from + i);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(eight, words));
    to += __builtin_popcount(eight);
  }
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
    .layout = {{},  // in the order of weir_layout
               {line8_prefetch, line8_check, line8_mark},
               {bitmap_prefetch, bitmap_check, nullptr},
               {page2_prefetch, page2_check, page2_mark},
               {page7_prefetch, page7_check, page7_mark},
               {ribbon_prefetch, ribbon_check, nullptr}},
    .gate_v4 = gate_v4,
    .gate_words_v4 = gate_words_v4,
    .gate_words_v6 = gate_words_v6,
    .pack = pack,
    .line8_step = line8_step,
    .buckets = {kBucketKernels<CompareV4>,  // in the order of BucketType
                kBucketKernels<CompareV4Port>, kBucketKernels<CompareV6>, kBucketKernels<CompareV6Port>,
                kBucketKernels<CompareFlow>},
};

}  // namespace weir::filter
