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
// The bits of the word where `wanted` is 1, in their order, from bit 0 on.
constexpr uint64_t packed_bits(uint64_t word, uint64_t wanted) {
  if ((wanted & (wanted + 1)) == 0) return word & wanted;  // there they are
  uint64_t packed = 0;
  uint32_t to = 0;
  for (; wanted != 0; wanted &= wanted - 1) {
    packed |= uint64_t{(word & wanted & (~wanted + 1)) != 0} << to++;
  }
  return packed;
}

}  // namespace weir
