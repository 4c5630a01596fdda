#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "control/policy/model/list.h"
#include "control/sources/flowspec/nlri.h"

// These functions turn rules of FlowSpec into weir's entries, and weir's entries into rules.
namespace weir::control::flowspec {

// The values that a component's operators take: ranges of numbers, patterns of bits.

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

// Rules of FlowSpec as weir's entries, and weir's entries as rules. docs/operate/flowspec.md has the table.

constexpr size_t kMostEntries = 256;  // of one rule
constexpr size_t kMostRules = 256;    // of one entry

// Together they match the packets that the rule matches, and no other. Error: which component weir has no entry for,
// and why; or that there would be too many.
Result<std::vector<Flow>> entries_of(const Rule& rule);

// The rules that match what the entries of the draft match, as far as FlowSpec can say it: ports are those of TCP and
// UDP there. Error: what it cannot say.
Result<std::vector<Rule>> rules_of(const ListDraft& entries);

}  // namespace weir::control::flowspec
