#pragma once

#include <cstdint>
#include <vector>

#include "control/compile/plan/plan.h"
#include "filter/read/view.h"

namespace weir::control {

constexpr unsigned kLineWords = 8, kPageBits = WEIR_PAGE_BYTES * 8;

// Walks all of the filter. A bitmap has none: 0.
RateBand rate_band(const filter::ShapeView& shape, uint64_t n_keys);

// All of a report that the snapshot itself tells, and the bands of its filters; as in the header.
std::vector<ShapeReport> describe_filters(const filter::SnapshotView& snapshot);

// Word 0..7 of a line of the filter.
uint64_t filter_word(const filter::ShapeView& shape, uint32_t line, unsigned word);

}  // namespace weir::control
