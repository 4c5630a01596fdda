#pragma once

#include <cstdint>

namespace weir::filter {

// Lines of a line8 filter for n_keys at the wanted false-positive rate (0 < rate < 1), by inverting line8_fpr. At
// least 1.
uint32_t line8_lines(uint64_t n_keys, double false_positive_rate);

// Expected false-positive rate of n_keys spread over `lines` lines: Poisson mixture over keys per line, sum_j P(j) (1 -
// (1 - 1/64)^j)^8 with mean n_keys / lines (FILTERS section 7; within 2 % of measurement).
double line8_fpr(uint64_t n_keys, uint32_t lines);

// Exact buckets (a multiple of 64) for n_keys in buckets of `slots` slots.
uint32_t exact_buckets(uint64_t n_keys, unsigned slots);

}  // namespace weir::filter
