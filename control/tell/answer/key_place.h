#pragma once

#include <cstdint>
#include <vector>

#include "filter/read/view.h"

// Where the bits of a key are in its filter, for people. Every layout has them in one page.
namespace weir::control {

struct LineBits {
  uint32_t line;               // in the page, 0..63
  std::vector<uint32_t> bits;  // 0..511, ascending. ribbon: 0..63, the bit in each of the line's eight words
};

struct KeyPlace {
  uint32_t page = 0;
  std::vector<LineBits> lines;  // line8, bitmap: one; page2, ribbon: two; page7: up to seven
};

// hash: of the key; bitmap: its index.
KeyPlace key_place(const filter::ShapeView& shape, uint64_t hash);

}  // namespace weir::control
