#include "filter/build/ribbon.h"

#include <bit>

#include "filter/layouts/ribbon.h"

namespace weir::filter {
namespace {

// splitmix64 (Steele, Lea, Flood 2014), by counter.
uint64_t random_bits(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Gaussian elimination, a key at a time: coefficients[r] is the equation bound to row r, bit i for row r + i, bit 0
// set; 0 while the row is free. An equation that ends as 0 = 0 is implied by the others.
void bind(uint64_t hash, uint32_t pages, uint64_t coefficients[WEIR_RIBBON_ROWS]) {
  uint32_t row = weir_ribbon_start(hash, pages);
  uint64_t equation = weir_ribbon_coefficients(hash);
  while (coefficients[row] != 0) {
    equation ^= coefficients[row];
    if (equation == 0) return;
    const int skipped = std::countr_zero(equation);
    equation >>= skipped;
    row += static_cast<uint32_t>(skipped);
  }
  coefficients[row] = equation;
}

}  // namespace

void solve_ribbon_page(std::span<const uint64_t> hashes, uint32_t pages, uint64_t seed, uint64_t page[512]) {
  uint64_t coefficients[WEIR_RIBBON_ROWS] = {};
  for (const uint64_t hash : hashes) bind(hash, pages, coefficients);

  // From the last row to the first; ahead[b]: bit b of the 64 rows from this one on, this row's in bit 0. An equation's
  // first row is what makes its sum even.
  uint64_t ahead[WEIR_RIBBON_BITS] = {};
  for (uint32_t row = WEIR_RIBBON_ROWS; row-- > 0;) {
    const uint64_t free_bits = coefficients[row] == 0 ? random_bits(seed, row) : 0;
    for (uint32_t b = 0; b < WEIR_RIBBON_BITS; b++) {
      ahead[b] <<= 1;
      const uint64_t odd = static_cast<uint64_t>(std::popcount(ahead[b] & coefficients[row])) & 1;
      ahead[b] |= odd | (free_bits >> b & 1);
    }
    if (row % 64 == 0) {
      for (uint32_t b = 0; b < WEIR_RIBBON_BITS; b++) page[row / 64 * 8 + b] = ahead[b];
    }
  }
}

}  // namespace weir::filter
