#pragma once

#include <string_view>

#include "filter/kernels/kernels.h"
#include "filter/layouts/layout.h"

// The standard Bloom filter (tests/bench/standard_bits.h) as one more layout beside the product's, to compare with. Its
// loops are scalar on every instruction set: they wait for memory.
namespace weir::bench {

constexpr weir_layout kStandard = static_cast<weir_layout>(WEIR_LAYOUTS);  // the first number that no layout has

// As those of filter/, with kStandard.
const filter::Layout& layout_of(weir_layout id);
const filter::LayoutKernels& loops_of(const filter::Kernels& kernels, weir_layout id);
double layout_fpr(weir_layout layout, uint64_t n_keys, uint32_t lines, unsigned k);

double standard_fpr(uint64_t n_keys, uint32_t lines, unsigned k);

}  // namespace weir::bench
