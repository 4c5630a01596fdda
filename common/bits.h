#pragma once

#include <cstdint>

// Masks of one 64-bit word.
namespace weir {

constexpr uint64_t bit(uint32_t i) {
  return uint64_t{1} << i;
}
constexpr uint64_t low_bits(uint32_t n) {
  return n >= 64 ? ~uint64_t{0} : bit(n) - 1;
}

}  // namespace weir
