#pragma once

#include <cstdint>
#include <optional>

#include "filter/format/snapshot.h"

// Rates and sizes. A filter's size is its number of 64-byte lines; layouts of pages (filter/layouts/layout.h) have a
// multiple of 64.
namespace weir::filter {

// The expected false-positive rate of n_keys in a filter of `lines` lines whose keys have k bits: a Poisson mixture
// over the keys that share a line or page (docs/develop/filter.md has the formulas). Within 2 % of
// measurement.
double line8_fpr(uint64_t n_keys, uint32_t lines);
double page2_fpr(uint64_t n_keys, uint32_t lines, unsigned k);
double page7_fpr(uint64_t n_keys, uint32_t lines);
double ribbon_fpr(uint64_t n_keys, uint32_t lines);  // a few ms
// By layout; a bitmap has none: 0. k: as the layout has it, see weir_shape.
double layout_fpr(weir_layout layout, uint64_t n_keys, uint32_t lines, unsigned k);

struct FilterSize {
  uint32_t lines;
  uint8_t k;
};

// The smallest filter of the layout that keeps n_keys at the wanted rate (0 < rate < 1), by inverting layout_fpr.
// Nothing when there is none: a ribbon never gets below 2^-8, and nothing has 2^32 lines. A ribbon is never fuller than
// kFullestRibbonRate asks for.
constexpr double kFullestRibbonRate = 0.004;
std::optional<FilterSize> size_filter(weir_layout layout, uint64_t n_keys, double false_positive_rate);

// Exact buckets (whole pages of them) for n_keys in buckets of `slots` slots, `per_page` of them in a page.
uint32_t exact_buckets(uint64_t n_keys, unsigned slots, uint32_t per_page = WEIR_LINES_PER_PAGE);

}  // namespace weir::filter
