// Compiled once per instruction set, WEIR_BENCH_LANES names it.

#include "tests/bench/filter_lanes.h"

#include <immintrin.h>

namespace weir::bench {
namespace {

// --- one vector of 64-bit lanes ------------------------------------------------------------------------------------

#if defined(__AVX512F__)
using V = __m512i;
V load(const void* at) {
  return _mm512_loadu_si512(at);
}
void store(void* at, V x) {
  _mm512_storeu_si512(at, x);
}
V all(uint64_t x) {
  return _mm512_set1_epi64(static_cast<long long>(x));
}
V add(V a, V b) {
  return _mm512_add_epi64(a, b);
}
V exor(V a, V b) {
  return _mm512_xor_si512(a, b);
}
V either(V a, V b) {
  return _mm512_or_si512(a, b);
}
V both(V a, V b) {
  return _mm512_and_si512(a, b);
}
template <int n>
V left(V a) {
  return _mm512_slli_epi64(a, n);
}
template <int n>
V right(V a) {
  return _mm512_srli_epi64(a, n);
}
V times(V a, V b) {
  return _mm512_mul_epu32(a, b);
}
V pick(V a, V below, V then, V otherwise) {
  return _mm512_mask_blend_epi64(_mm512_cmplt_epu64_mask(a, below), otherwise, then);
}
V even_pairs(V a, V b) {
  return _mm512_unpacklo_epi64(a, b);
}
V odd_pairs(V a, V b) {
  return _mm512_unpackhi_epi64(a, b);
}
bool usable() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}
#elif defined(__AVX2__)
using V = __m256i;
V load(const void* at) {
  return _mm256_loadu_si256(static_cast<const V*>(at));
}
void store(void* at, V x) {
  _mm256_storeu_si256(static_cast<V*>(at), x);
}
V all(uint64_t x) {
  return _mm256_set1_epi64x(static_cast<long long>(x));
}
V add(V a, V b) {
  return _mm256_add_epi64(a, b);
}
V exor(V a, V b) {
  return _mm256_xor_si256(a, b);
}
V either(V a, V b) {
  return _mm256_or_si256(a, b);
}
V both(V a, V b) {
  return _mm256_and_si256(a, b);
}
template <int n>
V left(V a) {
  return _mm256_slli_epi64(a, n);
}
template <int n>
V right(V a) {
  return _mm256_srli_epi64(a, n);
}
V times(V a, V b) {
  return _mm256_mul_epu32(a, b);
}
V pick(V a, V below, V then, V otherwise) {
  return _mm256_blendv_epi8(otherwise, then, _mm256_cmpgt_epi64(below, a));
}
V even_pairs(V a, V b) {
  return _mm256_unpacklo_epi64(a, b);
}
V odd_pairs(V a, V b) {
  return _mm256_unpackhi_epi64(a, b);
}
bool usable() {
  return __builtin_cpu_supports("avx2");
}
#else
using V = __m128i;
V load(const void* at) {
  return _mm_loadu_si128(static_cast<const V*>(at));
}
void store(void* at, V x) {
  _mm_storeu_si128(static_cast<V*>(at), x);
}
V all(uint64_t x) {
  return _mm_set1_epi64x(static_cast<long long>(x));
}
V add(V a, V b) {
  return _mm_add_epi64(a, b);
}
V exor(V a, V b) {
  return _mm_xor_si128(a, b);
}
V either(V a, V b) {
  return _mm_or_si128(a, b);
}
V both(V a, V b) {
  return _mm_and_si128(a, b);
}
template <int n>
V left(V a) {
  return _mm_slli_epi64(a, n);
}
template <int n>
V right(V a) {
  return _mm_srli_epi64(a, n);
}
V times(V a, V b) {
  return _mm_mul_epu32(a, b);
}
V pick(V a, V below, V then, V otherwise) {
  return _mm_blendv_epi8(otherwise, then, _mm_cmpgt_epi64(below, a));
}
V even_pairs(V a, V b) {
  return _mm_unpacklo_epi64(a, b);
}
V odd_pairs(V a, V b) {
  return _mm_unpackhi_epi64(a, b);
}
bool usable() {
  return true;
}
#endif

constexpr unsigned kWide = sizeof(V) / sizeof(uint64_t);
constexpr unsigned kVectors = kFillUnit / kWide;  // a unit of keys

// --- keys ------------------------------------------------------------------------------------------------------------

struct Draw {
  V lane[kVectors];
};

Draw draw_from(const KeyStream& stream) {
  Draw draw;
  for (unsigned v = 0; v < kVectors; v++) draw.lane[v] = load(stream.lane + v * kWide);
  return draw;
}

void keep(const Draw& draw, KeyStream& stream) {
  for (unsigned v = 0; v < kVectors; v++) store(stream.lane + v * kWide, draw.lane[v]);
}

V next(V& x) {
  x = exor(x, left<13>(x));
  x = exor(x, right<7>(x));
  x = exor(x, left<17>(x));
  return x;
}

// The key of an index below 2^32. Word 1 alone is a permutation: an odd multiplier, and a shift that can be undone.
// Word 0 depends on it through a second multiplication, so that neither is linear in the bits of the index (CRC is).
struct Words {
  V w0, w1;
};
Words words_of(V index) {
  const V product = times(index, all(0x9e3779b1));
  const V w1 = exor(product, right<29>(product));
  return {exor(times(w1, all(0x85ebca6b)), right<15>(w1)), w1};
}

V draw_index(V random, V n_members, V hits) {
  const V member = right<32>(times(right<32>(random), n_members));
  const V stranger = either(right<33>(random), all(uint64_t{1} << 31));
  return pick(both(random, all(0xffff)), hits, member, stranger);
}

template <class Take>
void draw_keys(KeyStream& stream, unsigned n, Take take) {
  Draw draw = draw_from(stream);
  const V n_members = all(stream.n_members), hits = all(stream.hits);
  for (unsigned i = 0; i < n; i += kFillUnit) {
    for (unsigned v = 0; v < kVectors; v++) {
      take(i + v * kWide, words_of(draw_index(next(draw.lane[v]), n_members, hits)));
    }
  }
  keep(draw, stream);
}

void fill_hashes(KeyStream& stream, uint64_t* hash, unsigned n) {
  Draw draw = draw_from(stream);
  for (unsigned i = 0; i < n; i += kFillUnit) {
    for (unsigned v = 0; v < kVectors; v++) store(hash + i + v * kWide, next(draw.lane[v]));
  }
  keep(draw, stream);
}

void fill_columns(KeyStream& stream, uint64_t* w0, uint64_t* w1, unsigned n) {
  draw_keys(stream, n, [&](unsigned i, Words words) {
    store(w0 + i, words.w0);
    store(w1 + i, words.w1);
  });
}

// In the order in which unpacking leaves them: which key is which does not matter.
void fill_rows(KeyStream& stream, uint64_t* rows, unsigned n) {
  draw_keys(stream, n, [&](unsigned i, Words words) {
    store(rows + 2 * i, even_pairs(words.w0, words.w1));
    store(rows + 2 * i + kWide, odd_pairs(words.w0, words.w1));
  });
}

void fill_members(uint64_t first, uint64_t* w0, uint64_t* w1, unsigned n) {
  const uint64_t count[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const V lane = load(count);
  for (unsigned i = 0; i < n; i += kWide) {
    const Words words = words_of(add(all(first + i), lane));
    store(w0 + i, words.w0);
    store(w1 + i, words.w1);
  }
}

// --- the limit -------------------------------------------------------------------------------------------------------

constexpr unsigned kLineBytes = 64;

V line_sum(const uint8_t* line) {
  V sum = load(line);
  for (unsigned at = sizeof(V); at < kLineBytes; at += sizeof(V)) sum = exor(sum, load(line + at));
  return sum;
}

uint64_t first_lane(V x) {
  uint64_t lane[kWide];
  store(lane, x);
  return lane[0];
}

uint64_t touch(const uint8_t* bits, uint32_t lines, const uint64_t* hash, unsigned n) {
  V sum = all(0);
  for (unsigned i = 0; i < n; i++) sum = exor(sum, line_sum(bits + ((hash[i] >> 32) * lines >> 32) * kLineBytes));
  return first_lane(sum);
}

//   ring:   ... | loaded now | asked for, on their way ... | asked for now |
//                 at - distance                              at
uint64_t rolling(KeyStream& stream, const uint8_t* bits, uint32_t lines, unsigned distance, uint64_t n) {
  constexpr unsigned kRing = 1024;
  static_assert(kRing >= kMaxDistance + kFillUnit);
  alignas(64) uint64_t offset[kRing] = {};
  Draw draw = draw_from(stream);
  const V n_lines = all(lines);
  V sum = all(0);
  for (uint64_t i = 0; i < n; i += kFillUnit) {
    uint64_t* ask = offset + i % kRing;
    for (unsigned v = 0; v < kVectors; v++) {
      store(ask + v * kWide, left<6>(right<32>(times(right<32>(next(draw.lane[v])), n_lines))));
    }
    if (distance != 0) {
      for (unsigned k = 0; k < kFillUnit; k++) _mm_prefetch(bits + ask[k], _MM_HINT_T0);
    }
    const uint64_t* take = offset + (i - distance) % kRing;
    for (unsigned k = 0; k < kFillUnit; k++) sum = exor(sum, line_sum(bits + take[k]));
  }
  keep(draw, stream);
  return first_lane(sum);
}

}  // namespace

#define WEIR_NAME_(x) #x
#define WEIR_NAME(x) WEIR_NAME_(x)
#define WEIR_SYMBOL_(x) k_lanes_##x
#define WEIR_SYMBOL(x) WEIR_SYMBOL_(x)
extern const Lanes WEIR_SYMBOL(WEIR_BENCH_LANES);
constinit const Lanes WEIR_SYMBOL(WEIR_BENCH_LANES) = {
    WEIR_NAME(WEIR_BENCH_LANES), usable, fill_hashes, fill_columns, fill_rows, fill_members, touch, rolling};

}  // namespace weir::bench
