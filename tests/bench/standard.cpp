#include "tests/bench/standard.h"

#include <cmath>

#include "common/prefetch.h"
#include "filter/build/sizing.h"
#include "tests/bench/standard_bits.h"

namespace weir::bench {

using filter::FilterBits;
using filter::FilterWords;
using filter::prefetch_line;

namespace {

bool holds(const FilterBits& filter, uint64_t hash) {
  return weir_standard_check(reinterpret_cast<const uint64_t*>(filter.bits), filter.lines, filter.k, hash) != 0;
}

void mark_one(const FilterWords& filter, uint64_t hash) {
  weir_standard_mark(filter.words, filter.lines, filter.k, hash);
}

void prefetch(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    for (unsigned b = 0; b < filter.k; b++) {
      prefetch_line(filter.bits + size_t{weir_standard_line(hash[i], filter.lines, b)} * WEIR_LINE_BYTES);
    }
  }
}

uint64_t check(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i++) hits |= uint64_t{holds(filter, hash[i])} << i;
  return hits;
}

void mark(const FilterWords& filter, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) mark_one(filter, hash[i]);
}

constexpr filter::Layout kLayout = {.id = kStandard,
                                    .name = "standard",
                                    .what = "k bits anywhere (Bloom)",
                                    .unit_lines = 1,
                                    .min_k = 1,
                                    .max_k = WEIR_STANDARD_MAX_K,
                                    .step_k = 1,
                                    .mark = mark_one,
                                    .check = holds};
constexpr filter::LayoutKernels kLoops = {prefetch, check, mark};

}  // namespace

const filter::Layout& layout_of(weir_layout id) {
  return id == kStandard ? kLayout : filter::layout_of(id);
}

const filter::LayoutKernels& loops_of(const filter::Kernels& kernels, weir_layout id) {
  return id == kStandard ? kLoops : kernels.layout[id];
}

double standard_fpr(uint64_t n_keys, uint32_t lines, unsigned k) {
  if (n_keys == 0) return 0;
  return std::pow(1 - std::exp(-static_cast<double>(n_keys) / lines * k / (WEIR_LINE_BYTES * 8)), k);
}

double layout_fpr(weir_layout layout, uint64_t n_keys, uint32_t lines, unsigned k) {
  return layout == kStandard ? standard_fpr(n_keys, lines, k) : filter::layout_fpr(layout, n_keys, lines, k);
}

}  // namespace weir::bench
