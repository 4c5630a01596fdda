#pragma once

#include <cstdint>

#include "common/prefetch.h"
#include "filter/layouts/filter_bits.h"
#include "filter/layouts/line8.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"
#include "filter/layouts/ribbon.h"

// What no vector makes faster, as the definition has it, for the kernels with vectors: where a key's lines are, asking
// for them, and the marks of layouts that are rarely built. Static, so that every kernel library has its own
// (kernels.h).
namespace weir::filter {

static const uint8_t* line_at(const FilterBits& filter, uint32_t line) {
  return filter.bits + size_t{line} * WEIR_LINE_BYTES;
}

static const uint8_t* page_of(const FilterBits& filter, uint64_t hash) {
  return line_at(filter, weir_hash_range(hash, filter.lines / WEIR_LINES_PER_PAGE) * WEIR_LINES_PER_PAGE);
}

static void line8_prefetch(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) prefetch_line(line_at(filter, weir_hash_range(hash[i], filter.lines)));
}

static void page2_prefetch(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    const weir_page2_place place = weir_page2_locate(hash[i], filter.lines, filter.k);
    prefetch_line(line_at(filter, place.line[0]));
    prefetch_line(line_at(filter, place.line[1]));
  }
}

static void page7_prefetch(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    const uint8_t* page = page_of(filter, hash[i]);
    for (unsigned b = 0; b < WEIR_PAGE7_K; b++) prefetch_line(page + weir_page7_bit(hash[i], b) / 8);
  }
}

static const uint8_t* ribbon_line(const FilterBits& filter, uint64_t hash) {
  const uint32_t start = weir_ribbon_start(hash, filter.lines / WEIR_LINES_PER_PAGE);
  return page_of(filter, hash) + size_t{start / 64} * WEIR_LINE_BYTES;
}

static void ribbon_prefetch(const FilterBits& filter, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    const uint8_t* first = ribbon_line(filter, hash[i]);
    prefetch_line(first);
    prefetch_line(first + WEIR_LINE_BYTES);
  }
}

static void bitmap_prefetch(const FilterBits& filter, const uint64_t* index, unsigned n) {
  for (unsigned i = 0; i < n; i++) prefetch_line(filter.bits + index[i] / 8);
}

static weir_u64* page_of(const FilterWords& filter, uint64_t hash) {
  const uint32_t page = weir_hash_range(hash, filter.lines / WEIR_LINES_PER_PAGE);
  return filter.words + size_t{page} * (WEIR_PAGE_BYTES / 8);
}

static void page2_mark(const FilterWords& filter, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) weir_page2_mark(page_of(filter, hash[i]), filter.lines, filter.k, hash[i]);
}

static void page7_mark(const FilterWords& filter, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) weir_page7_mark(page_of(filter, hash[i]), hash[i]);
}

}  // namespace weir::filter
