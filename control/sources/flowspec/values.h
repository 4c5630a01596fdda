#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "control/sources/flowspec/nlri.h"

// Which values a component's operators take: ranges of numbers, patterns of bits.
namespace weir::control::flowspec {

struct ValueRange {
  uint64_t first, last;  // both included
  bool operator==(const ValueRange&) const = default;
};
// Ascending, with a gap between any two.
using ValueRanges = std::vector<ValueRange>;

// The numbers from 0 to `most` that numeric operators take. Operators joined by "and" are one alternative; any
// alternative will do (RFC 8955, section 4.2.1.1).
ValueRanges numbers_of(const std::vector<Operator>& operators, uint64_t most);

// What is in both.
ValueRanges common(const ValueRanges& a, const ValueRanges& b);

// What bitmask operators say of these bits (RFC 8955, section 4.2.1.2).
bool holds_for_bits(const std::vector<Operator>& operators, uint64_t bits);

// The bytes with (byte & mask) == set.
struct BitPattern {
  uint8_t set, mask;
  bool operator==(const BitPattern&) const = default;
};
// Few patterns that have these bytes among them, and no other. All 256: one pattern without a mask.
std::vector<BitPattern> patterns_of(const std::bitset<256>& bytes);

}  // namespace weir::control::flowspec
