#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "filter/format/snapshot.h"
#include "filter/layouts/filter_bits.h"

namespace weir::filter {

// What there is to know about a layout besides its bits (filter/layouts), its loops (filter/kernels) and its rate
// (filter/build/sizing.h).
struct Layout {
  weir_layout id;
  std::string_view name;         // as policies and commands spell it
  std::string_view what;         // one line for people
  uint32_t unit_lines;           // lines of the unit that holds all bits of a key: 1 or 64
  uint8_t min_k, max_k, step_k;  // bits of a key that it can have
  // Sets the bits of a key; null as in LayoutKernels.
  void (*mark)(const FilterWords& filter, uint64_t hash);
  // The definition of a lookup, scalar: is every bit of the key there? place: its hash; for a bitmap its index.
  bool (*check)(const FilterBits& filter, uint64_t place);
};

std::span<const Layout> all_layouts();
const Layout& layout_of(weir_layout id);            // id: one of the enumerators
const Layout* layout_named(std::string_view name);  // null: no such layout

// The layout that a filter of this rate should have: line8 down to 0.1 %, where one line's bits begin to run out, page2
// below (docs/develop/filter.md: at 0.01 % it needs 20 bits a key, one line 24).
weir_layout layout_for_rate(double false_positive_rate);

}  // namespace weir::filter
