// The definition, one key at a time: the shared C headers in loops.

#include "common/prefetch.h"
#include "filter/format/gate.h"
#include "filter/format/siphash.h"
#include "filter/kernels/find.h"
#include "filter/kernels/kernels.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/line8.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"
#include "filter/layouts/ribbon.h"

namespace weir::filter {
namespace {

template <unsigned kWords>
void siphash13_words(const uint64_t secret[2], const uint64_t* const* words, unsigned n, uint64_t* hash) {
  for (unsigned i = 0; i < n; i++) {
    uint64_t key[kWords];
    for (unsigned w = 0; w < kWords; w++) key[w] = words[w][i];
    hash[i] = weir_siphash13(secret, key, kWords);
  }
}

void siphash13(const uint64_t secret[2], const uint64_t* const* words, unsigned n_words, unsigned n, uint64_t* hash) {
  switch (n_words) {
    case 1:
      return siphash13_words<1>(secret, words, n, hash);
    case 2:
      return siphash13_words<2>(secret, words, n, hash);
    case 3:
      return siphash13_words<3>(secret, words, n, hash);
    case 4:
      return siphash13_words<4>(secret, words, n, hash);
    default:
      return siphash13_words<5>(secret, words, n, hash);
  }
}

const weir_u64* line(const FilterBits& filter, uint32_t index) {
  return reinterpret_cast<const weir_u64*>(filter.bits) + size_t{index} * 8;
}

weir_u64* line(const FilterWords& filter, uint32_t index) {
  return filter.words + size_t{index} * 8;
}

template <class Filter>
uint32_t pages(const Filter& filter) {
  return filter.lines / WEIR_LINES_PER_PAGE;
}

template <class Filter>
auto page(const Filter& filter, uint64_t hash) {
  return line(filter, weir_hash_range(hash, pages(filter)) * WEIR_LINES_PER_PAGE);
}

struct Line8 {
  static void prefetch(const FilterBits& filter, uint64_t hash) {
    prefetch_line(line(filter, weir_hash_range(hash, filter.lines)));
  }
  static uint64_t check(const FilterBits& filter, uint64_t hash) {
    return weir_line8_check(line(filter, weir_hash_range(hash, filter.lines)), hash);
  }
  static void mark(const FilterWords& filter, uint64_t hash) {
    weir_line8_mark(line(filter, weir_hash_range(hash, filter.lines)), hash);
  }
};

struct Page2 {
  static void prefetch(const FilterBits& filter, uint64_t hash) {
    const weir_page2_place place = weir_page2_locate(hash, filter.lines, filter.k);
    prefetch_line(line(filter, place.line[0]));
    prefetch_line(line(filter, place.line[1]));
  }
  static uint64_t check(const FilterBits& filter, uint64_t hash) {
    return weir_page2_check(page(filter, hash), filter.lines, filter.k, hash);
  }
  static void mark(const FilterWords& filter, uint64_t hash) {
    weir_page2_mark(page(filter, hash), filter.lines, filter.k, hash);
  }
};

struct Page7 {
  static void prefetch(const FilterBits& filter, uint64_t hash) {
    for (unsigned i = 0; i < WEIR_PAGE7_K; i++) {
      prefetch_line(page(filter, hash) + weir_page7_bit(hash, i) / 64);
    }
  }
  static uint64_t check(const FilterBits& filter, uint64_t hash) { return weir_page7_check(page(filter, hash), hash); }
  static void mark(const FilterWords& filter, uint64_t hash) { weir_page7_mark(page(filter, hash), hash); }
};

struct Ribbon {
  static void prefetch(const FilterBits& filter, uint64_t hash) {
    const weir_u64* first = page(filter, hash) + weir_ribbon_start(hash, pages(filter)) / 64 * 8;
    prefetch_line(first);
    prefetch_line(first + 8);
  }
  static uint64_t check(const FilterBits& filter, uint64_t hash) {
    return weir_ribbon_check(page(filter, hash), pages(filter), hash);
  }
};

struct Bitmap {
  static void prefetch(const FilterBits& filter, uint64_t index) { prefetch_line(filter.bits + index / 8); }
  static uint64_t check(const FilterBits& filter, uint64_t index) {
    return weir_bitmap_check(filter.bits, static_cast<uint32_t>(index));
  }
};

template <class Layout>
void prefetch(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) Layout::prefetch(filter, hash[i]);
}

template <class Layout>
uint64_t check(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i++) hits |= Layout::check(filter, hash[i]) << i;
  return hits;
}

template <class Layout>
void mark(const FilterWords& filter, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) Layout::mark(filter, hash[i]);
}

uint64_t line8_step(const Line8Step& step) {
  prefetch<Line8>(step.fetch_filter, step.fetch_hash, step.n_fetch);
  siphash13(step.secret, step.words, step.n_words, step.n_hash, step.hash);
  return check<Line8>(step.test_filter, step.test_hash, step.n_test);
}

// --- exact stage: filter/format/buckets.h as it is -----------------------------------------------------------------

template <class AnyBucket>
struct Compare {
  using Bucket = AnyBucket;
  [[gnu::always_inline]] static Found in_bucket(const Bucket& bucket, const uint64_t* const* words, unsigned i) {
    Key key;
    for (unsigned w = 0; w < FindBatch<Compare>::kWords; w++) key.word[w] = words[w][i];
    const uint32_t rule = rule_in_bucket(bucket, key);
    return {rule, rule != 0};
  }
  static uint64_t found(const uint8_t* held, const uint32_t*, unsigned n) {
    uint64_t found = 0;
    for (unsigned i = 0; i < n; i++) found |= uint64_t{held[i]} << i;
    return found;
  }
};
uint64_t gate_v4(const uint64_t* bits, unsigned prefix_bits, const uint64_t* addresses, unsigned side, unsigned n) {
  uint64_t known = 0;
  for (unsigned i = 0; i < n; i++) {
    const uint64_t address = weir_gate_address_v4(static_cast<uint32_t>(addresses[i] >> (side * 32)));
    known |= uint64_t{weir_gate_knows(bits, prefix_bits, 0, 0, address)} << i;
  }
  return known;
}

uint64_t words_hold(const GateWords& table, uint64_t address) {
  return weir_gate_knows(table.words, table.prefix_bits, table.n_words, table.multiplier, address);
}

uint64_t gate_words_v4(const GateWords& table, const uint64_t* addresses, unsigned side, unsigned n) {
  uint64_t known = 0;
  for (unsigned i = 0; i < n; i++) {
    const uint64_t address = weir_gate_address_v4(static_cast<uint32_t>(addresses[i] >> (side * 32)));
    known |= words_hold(table, address) << i;
  }
  return known;
}

uint64_t gate_words_v6(const GateWords& table, const uint64_t* high, unsigned n) {
  uint64_t known = 0;
  for (unsigned i = 0; i < n; i++) known |= words_hold(table, weir_gate_address_v6(high[i])) << i;
  return known;
}

void pack(const uint64_t* from, uint64_t wanted, unsigned, uint64_t* to) {
  for (; wanted != 0; wanted &= wanted - 1) memcpy(to++, from + __builtin_ctzll(wanted), sizeof *to);
}

bool usable() {
  return true;
}

template <class Layout>
constexpr LayoutKernels kKernelsOf = {prefetch<Layout>, check<Layout>, mark<Layout>};
template <class Layout>
constexpr LayoutKernels kReadOnly = {prefetch<Layout>, check<Layout>, nullptr};

}  // namespace

constinit const Kernels kScalarKernels = {
    .name = "scalar",
    .usable = usable,
    .siphash13 = siphash13,
    .layout = {{},  // in the order of weir_layout
               kKernelsOf<Line8>,
               kReadOnly<Bitmap>,
               kKernelsOf<Page2>,
               kKernelsOf<Page7>,
               kReadOnly<Ribbon>},
    .gate_v4 = gate_v4,
    .gate_words_v4 = gate_words_v4,
    .gate_words_v6 = gate_words_v6,
    .pack = pack,
    .line8_step = line8_step,
    .buckets = {kBucketKernels<Compare<weir_bucket_v4>>,  // in the order of BucketType
                kBucketKernels<Compare<weir_bucket_v4_port>>, kBucketKernels<Compare<weir_bucket_v6>>,
                kBucketKernels<Compare<weir_bucket_v6_port>>, kBucketKernels<Compare<weir_bucket_flow>>},
};

}  // namespace weir::filter
