// AVX2. Same answers as scalar.cpp, which is the definition.

#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "filter/format/siphash.h"
#include "filter/kernels/buckets_avx2.h"
#include "filter/kernels/common.h"
#include "filter/kernels/gates.h"
#include "filter/kernels/kernels.h"
#include "filter/layouts/bitmap.h"

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

// What a key's first round makes of the secret alone, before the key's first word comes in: nearly half of the round.
struct Start {
  __m256i v0, v1, v1_later, v2, v3;
};

[[gnu::always_inline]] inline Start sip_start(const uint64_t secret[2]) {
  const __m256i v0 = _mm256_set1_epi64x(static_cast<long long>(secret[0] ^ WEIR_SIP_C0));
  const __m256i v1 = _mm256_set1_epi64x(static_cast<long long>(secret[1] ^ WEIR_SIP_C1));
  const __m256i sum = _mm256_add_epi64(v0, v1);
  const __m256i mixed = _mm256_xor_si256(rotate<13>(v1), sum);
  return {.v0 = rotate<32>(sum),
          .v1 = mixed,
          .v1_later = rotate<17>(mixed),
          .v2 = _mm256_set1_epi64x(static_cast<long long>(secret[0] ^ WEIR_SIP_C2)),
          .v3 = _mm256_set1_epi64x(static_cast<long long>(secret[1] ^ WEIR_SIP_C3))};
}

// The first word: sip_absorb with what Start has already.
[[gnu::always_inline]] inline State sip_first(const Start& start, __m256i word) {
  State s;
  s.v3 = _mm256_xor_si256(start.v3, word);
  s.v2 = _mm256_add_epi64(start.v2, s.v3);
  s.v3 = _mm256_xor_si256(rotate<16>(s.v3), s.v2);
  s.v0 = _mm256_add_epi64(start.v0, s.v3);
  s.v2 = _mm256_add_epi64(s.v2, start.v1);
  s.v3 = _mm256_xor_si256(rotate<21>(s.v3), s.v0);
  s.v1 = _mm256_xor_si256(start.v1_later, s.v2);
  s.v2 = rotate<32>(s.v2);
  s.v0 = _mm256_xor_si256(s.v0, word);
  return s;
}

[[gnu::always_inline]] inline void sip_absorb(State& s, __m256i word) {
  s.v3 = _mm256_xor_si256(s.v3, word);
  sip_round(s);
  s.v0 = _mm256_xor_si256(s.v0, word);
}

[[gnu::always_inline]] inline __m256i sip_result(const State& s) {
  return _mm256_xor_si256(_mm256_xor_si256(s.v0, s.v1), _mm256_xor_si256(s.v2, s.v3));
}

constexpr unsigned kGroup = 8;  // keys hashed side by side

// 4 keys for each State in S = 0, 1, ..., side by side: two States of four vectors fit the 16 registers, and one
// computes while the other waits (4 lanes x 2 measured best). Whole groups only: masked stores are slow on AMD
// (Zen 3: a third of the hash). between(r), r = 0..3, runs after each of the last four rounds: other work, for the core
// to do in the meantime.
template <unsigned kWords, unsigned... S, class Between>
[[gnu::always_inline]] inline void siphash13_group(std::integer_sequence<unsigned, S...>, const Start& start,
                                                   const uint64_t* const* words, unsigned first, uint64_t* hash,
                                                   Between between) {
  State state[] = {sip_first(start, load(words[0] + first + 4 * S))...};
  for (unsigned w = 1; w < kWords; w++) (sip_absorb(state[S], load(words[w] + first + 4 * S)), ...);
  const __m256i length = _mm256_set1_epi64x(static_cast<long long>(uint64_t{kWords * 8} << 56));
  (sip_absorb(state[S], length), ...);
  between(0);
  ((state[S].v2 = _mm256_xor_si256(state[S].v2, _mm256_set1_epi64x(0xff))), ...);
  (sip_round(state[S]), ...);
  between(1);
  (sip_round(state[S]), ...);
  between(2);
  (sip_round(state[S]), ...);
  between(3);
  (_mm256_storeu_si256(reinterpret_cast<__m256i*>(hash + first + 4 * S), sip_result(state[S])), ...);
}

constexpr std::make_integer_sequence<unsigned, kGroup / 4> kStates = {};
constexpr auto kNothing = [](unsigned) {};

template <unsigned kWords>
void siphash13_words(const uint64_t secret[2], const uint64_t* const* words, unsigned n, uint64_t* hash) {
  const Start start = sip_start(secret);
  unsigned done = 0;
  for (; done + kGroup <= n; done += kGroup) siphash13_group<kWords>(kStates, start, words, done, hash, kNothing);
  if (done == n) return;
  uint64_t columns[kWords][kGroup] = {}, last[kGroup];  // the last, incomplete group in a copy
  const uint64_t* copies[kWords];
  for (unsigned w = 0; w < kWords; w++) {
    for (unsigned i = done; i < n; i++) columns[w][i - done] = words[w][i];
    copies[w] = columns[w];
  }
  siphash13_group<kWords>(kStates, start, copies, 0, last, kNothing);
  for (unsigned i = done; i < n; i++) hash[i] = last[i - done];
}

// Calls work.template operator()<kWords>().
template <class Work>
[[gnu::always_inline]] inline auto with_words(unsigned n_words, Work work) {
  switch (n_words) {
    case 1:
      return work.template operator()<1>();
    case 2:
      return work.template operator()<2>();
    case 3:
      return work.template operator()<3>();
    case 4:
      return work.template operator()<4>();
    default:
      return work.template operator()<5>();
  }
}

void siphash13(const uint64_t secret[2], const uint64_t* const* words, unsigned n_words, unsigned n, uint64_t* hash) {
  with_words(n_words, [&]<unsigned kWords>() { siphash13_words<kWords>(secret, words, n, hash); });
}

// --- line8: one key's line in two vectors --------------------------------------------------------------------------

// Eight salts of 32 bits, each alone in a 64-bit lane: of words 0..3 and of words 4..7.
struct Salts {
  __m256i low, high;
};

[[gnu::always_inline]] inline Salts widen(const weir_u32 salts[8]) {
  const __m256i all = load(salts);
  return {_mm256_cvtepu32_epi64(_mm256_castsi256_si128(all)), _mm256_cvtepu32_epi64(_mm256_extracti128_si256(all, 1))};
}

//   lane w:  lo32(hash) * salt[w], low 32 bits  >> 26
// The salt's upper half is 0, so a product of 32-bit halves leaves six bits and nothing to mask.
[[gnu::always_inline]] inline __m256i wanted_places(__m256i hash, __m256i salt) {
  return _mm256_srli_epi64(_mm256_mullo_epi32(hash, salt), 26);
}

// The wanted bits that the line lacks: zero for a key that may be present.
[[gnu::always_inline]] inline __m256i wanted_bits(__m256i hash, __m256i salt) {
  return _mm256_sllv_epi64(_mm256_set1_epi64x(1), wanted_places(hash, salt));
}

[[gnu::always_inline]] inline uint64_t is_zero(__m256i x) {
  return static_cast<uint64_t>(_mm256_testz_si256(x, x));
}

// Every word of the line shifted so that the wanted bit is its lowest: 1 when all of them are set.
[[gnu::always_inline]] inline uint64_t holds(const uint8_t* line, uint64_t hash, const Salts& salts) {
  const __m256i key = broadcast(hash);
  const __m256i low = _mm256_srlv_epi64(load(line), wanted_places(key, salts.low));
  const __m256i high = _mm256_srlv_epi64(load(line + 32), wanted_places(key, salts.high));
  return static_cast<uint64_t>(_mm256_testc_si256(_mm256_and_si256(low, high), _mm256_set1_epi64x(1)));
}

// weir_hash_range of eight hashes: hi32(hash) * lines, high 32 bits.
[[gnu::always_inline]] inline void lines_of(const uint64_t* hash, uint32_t lines, uint32_t line[8]) {
  const __m256i n = _mm256_set1_epi64x(lines);
  const __m256i first = _mm256_mul_epu32(_mm256_srli_epi64(load(hash), 32), n);
  const __m256i last = _mm256_mul_epu32(_mm256_srli_epi64(load(hash + 4), 32), n);
  // The upper halves of both, 0 1 4 5 | 2 3 6 7, and then in their order.
  const __m256i halves =
      _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(last), 0xdd));
  _mm256_store_si256(reinterpret_cast<__m256i*>(line), _mm256_permute4x64_epi64(halves, 0xd8));
}

[[gnu::always_inline]] inline uint64_t line8_check_one(const FilterBits& filter, uint64_t hash, const Salts& salts) {
  return holds(line_at(filter, weir_hash_range(hash, filter.lines)), hash, salts);
}

// Eight keys; bit k of the answer is key k's.
template <unsigned... K>
[[gnu::always_inline]] inline uint64_t line8_check_group(std::integer_sequence<unsigned, K...>,
                                                         const FilterBits& filter, const uint64_t* hash,
                                                         const Salts& salts) {
  alignas(32) uint32_t line[kGroup];
  lines_of(hash, filter.lines, line);
  return ((holds(line_at(filter, line[K]), hash[K], salts) << K) | ...);
}

uint64_t line8_check(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  constexpr std::make_integer_sequence<unsigned, kGroup> kKeys = {};
  const Salts salts = widen(weir_salt);
  uint64_t hits = 0;
  unsigned i = 0;
  for (; i + kGroup <= n; i += kGroup) hits |= line8_check_group(kKeys, filter, hash + i, salts) << i;
  for (; i < n; i++) hits |= line8_check_one(filter, hash[i], salts) << i;
  return hits;
}

void line8_mark(const FilterWords& filter, const uint64_t* hash, unsigned n) {
  const Salts salts = widen(weir_salt);
  for (unsigned i = 0; i < n; i++) {
    auto* half = reinterpret_cast<__m256i*>(filter.words + size_t{weir_hash_range(hash[i], filter.lines)} * 8);
    const __m256i key = broadcast(hash[i]);
    _mm256_storeu_si256(half, _mm256_or_si256(load(half), wanted_bits(key, salts.low)));
    _mm256_storeu_si256(half + 1, _mm256_or_si256(load(half + 1), wanted_bits(key, salts.high)));
  }
}

constexpr unsigned kSlice = kGroup / 4;  // keys of the other batches done between two rounds

// Hashes a batch, eight keys at a time, and between the rounds does as many keys of the others: whole groups, so it
// reads on in the column of a batch that is shorter. Returns how many keys of each are done.
template <unsigned kWords, bool kFetch, bool kTest>
unsigned weave(const Line8Step& step, uint64_t& hits) {
  const FilterBits fetched = step.fetch_filter, tested = step.test_filter;
  const Salts salts = widen(weir_salt);
  const Start start = sip_start(step.secret);
  unsigned done = 0;
  for (; done < step.n_hash; done += kGroup) {
    uint64_t group_hits = 0;
    alignas(32) uint32_t fetch_line[kGroup], test_line[kGroup];
    if constexpr (kFetch) lines_of(step.fetch_hash + done, fetched.lines, fetch_line);
    if constexpr (kTest) lines_of(step.test_hash + done, tested.lines, test_line);
    siphash13_group<kWords>(kStates, start, step.words, done, step.hash, [&](unsigned r) {
      for (unsigned i = r * kSlice; i < (r + 1) * kSlice; i++) {
        if constexpr (kFetch) prefetch_line(line_at(fetched, fetch_line[i]));
        if constexpr (kTest) group_hits |= holds(line_at(tested, test_line[i]), step.test_hash[done + i], salts) << i;
      }
    });
    hits |= group_hits << done;
  }
  return done;
}

void fetch_group(const FilterBits& filter, const uint64_t* hash) {
  alignas(32) uint32_t line[kGroup];
  lines_of(hash, filter.lines, line);
  for (const uint32_t l : line) prefetch_line(line_at(filter, l));
}

uint64_t line8_step(const Line8Step& step) {
  uint64_t hits = 0;
  unsigned done = 0;
  if (step.n_hash != 0) {
    done = with_words(step.n_words, [&]<unsigned kWords>() {
      if (step.n_fetch == 0)
        return step.n_test == 0 ? weave<kWords, false, false>(step, hits) : weave<kWords, false, true>(step, hits);
      return step.n_test == 0 ? weave<kWords, true, false>(step, hits) : weave<kWords, true, true>(step, hits);
    });
    if (step.n_fetch == 0 && step.n_test == 0) return 0;
  }
  // What is left of both, in turns: a burst of prefetches alone fills the core's miss queue and then waits for it.
  for (; done < step.n_fetch || done < step.n_test; done += kGroup) {
    if (done < step.n_fetch) fetch_group(step.fetch_filter, step.fetch_hash + done);
    if (done < step.n_test) {
      const unsigned n = std::min(step.n_test - done, kGroup);
      hits |= line8_check(step.test_filter, step.test_hash + done, n) << done;
    }
  }
  return step.n_test >= kMaxBatch ? hits : hits & ((uint64_t{1} << step.n_test) - 1);
}

// --- page2: as line8, twice, with the words that a key leaves out taken out ----------------------------------------

// kWordMasks[m]: all bits of word w where bit w of m is set.
struct WordMasks {
  alignas(32) uint64_t words[256][8];
};

constexpr WordMasks make_word_masks() {
  WordMasks masks = {};
  for (unsigned m = 0; m < 256; m++) {
    for (unsigned w = 0; w < 8; w++) masks.words[m][w] = (m >> w & 1) != 0 ? ~uint64_t{0} : 0;
  }
  return masks;
}

constexpr WordMasks kWordMasks = make_word_masks();

[[gnu::always_inline]] inline __m256i lacking_in(const uint8_t* line, uint32_t words, __m256i hash,
                                                 const Salts& salts) {
  const uint64_t* mask = kWordMasks.words[words];
  const __m256i low = _mm256_and_si256(wanted_bits(hash, salts.low), load(mask));
  const __m256i high = _mm256_and_si256(wanted_bits(hash, salts.high), load(mask + 4));
  return _mm256_or_si256(_mm256_andnot_si256(load(line), low), _mm256_andnot_si256(load(line + 32), high));
}

uint64_t page2_check(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  const Salts first = widen(weir_salt), second = widen(weir_salt_b);
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i++) {
    const weir_page2_place place = weir_page2_locate(hash[i], filter.lines, filter.k);
    const __m256i key = broadcast(hash[i]);
    const __m256i lacks = _mm256_or_si256(lacking_in(line_at(filter, place.line[0]), place.words[0], key, first),
                                          lacking_in(line_at(filter, place.line[1]), place.words[1], key, second));
    hits |= is_zero(lacks) << i;
  }
  return hits;
}

// --- page7: the 32-bit words that hold a key's bits ----------------------------------------------------------------

// Lanes that are not wanted repeat lane 0's bit.
uint64_t page7_check(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  weir_u32 salts[8];
  for (unsigned b = 0; b < 8; b++) salts[b] = weir_salt[b < WEIR_PAGE7_K ? b : 0];
  const __m256i salt = load(salts), one = _mm256_set1_epi32(1);
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i++) {
    const __m256i low = _mm256_set1_epi32(static_cast<int>(hash[i]));
    const __m256i bit = _mm256_srli_epi32(_mm256_mullo_epi32(low, salt), 17);
    const auto* page = reinterpret_cast<const int*>(page_of(filter, hash[i]));
    const __m256i words = words_at(page, _mm256_srli_epi32(bit, 5));
    const __m256i wanted = _mm256_sllv_epi32(one, _mm256_and_si256(bit, _mm256_set1_epi32(31)));
    hits |= static_cast<uint64_t>(_mm256_testc_si256(words, wanted)) << i;
  }
  return hits;
}

// --- ribbon: the eight words of two neighbouring lines -------------------------------------------------------------

// Parity of every 64-bit lane of two vectors: halves are folded onto each other, 64 -> 32 bits each, then both vectors
// go on as the two halves of one; the last four bits are looked up. Zero when all eight are even.
[[gnu::always_inline]] inline __m256i odd_parity(__m256i low, __m256i high) {
  low = _mm256_xor_si256(low, _mm256_srli_epi64(low, 32));
  high = _mm256_xor_si256(high, _mm256_slli_epi64(high, 32));
  __m256i x = _mm256_blend_epi32(low, high, 0xaa);
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 8));
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 4));
  const __m256i nibble = _mm256_and_si256(x, _mm256_set1_epi32(0x0f));
  const __m256i odd = _mm256_setr_epi8(0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0,  //
                                       0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0);
  return _mm256_shuffle_epi8(odd, nibble);
}

uint64_t ribbon_check(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  const uint32_t pages = filter.lines / WEIR_LINES_PER_PAGE;
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i++) {
    const uint32_t shift = weir_ribbon_start(hash[i], pages) & 63;
    const uint64_t coefficients = weir_ribbon_coefficients(hash[i]);
    const __m256i in_first = broadcast(coefficients << shift), in_second = broadcast(coefficients >> 1 >> (63 - shift));
    const uint8_t* first = ribbon_line(filter, hash[i]);
    const uint8_t* second = first + WEIR_LINE_BYTES;
    const __m256i low = _mm256_xor_si256(_mm256_and_si256(load(first), in_first),  //
                                         _mm256_and_si256(load(second), in_second));
    const __m256i high =
        _mm256_xor_si256(_mm256_and_si256(load(first + 32), in_first), _mm256_and_si256(load(second + 32), in_second));
    hits |= is_zero(odd_parity(low, high)) << i;
  }
  return hits;
}

// --- bitmap --------------------------------------------------------------------------------------------------------

uint64_t bitmap_check(const FilterBits& filter, const uint64_t* index, unsigned n) {
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i++) {
    hits |= uint64_t{weir_bitmap_check(filter.bits, static_cast<uint32_t>(index[i]))} << i;
  }
  return hits;
}

// lane k of a row: the half of the four words that comes to half k, by which of them are wanted.
struct PackOrder {
  alignas(32) int32_t half[16][8];
};
constexpr PackOrder kPackOrder = [] {
  PackOrder order = {};
  for (unsigned wanted = 0; wanted < 16; wanted++) {
    unsigned to = 0;
    for (int word = 0; word < 4; word++) {
      if ((wanted >> word & 1) == 0) continue;
      order.half[wanted][to++] = 2 * word;
      order.half[wanted][to++] = 2 * word + 1;
    }
  }
  return order;
}();

void pack(const uint64_t* from, uint64_t wanted, unsigned n, uint64_t* to) {
  unsigned i = 0;
  for (; i + 4 <= n; i += 4) {
    const auto four = static_cast<unsigned>(wanted >> i & 15);
    const __m256i order = _mm256_load_si256(reinterpret_cast<const __m256i*>(kPackOrder.half[four]));
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(words, order));
    to += __builtin_popcount(four);
  }
  for (; i < n; i++) {
    *to = from[i];
    to += wanted >> i & 1;
  }
}

bool usable() {
  return __builtin_cpu_supports("avx2");
}

}  // namespace

constinit const Kernels kAvx2Kernels = {
    .name = "avx2",
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
