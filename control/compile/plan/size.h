#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"
#include "filter/format/key_shape.h"

// size: what a table of keys takes, before there is a policy or a key. The same formulas as filter/build/plan.cpp: a
// snapshot of one list and one rule with so many keys has exactly these bytes, and those of its gates. Of a gate it is
// the planner's choice for one side and keys that lie anywhere; keys that lie together need less, memory that is short
// allows less (control/compile/plan/gates.h).
namespace weir::control {

constexpr uint64_t kMostKeys = uint64_t{1} << 30;  // in one shape, as filter/build/plan.cpp
constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

struct SizeQuestion {
  uint64_t keys = 0;  // 1..kMostKeys
  double false_positive_rate = 0.005;
  filter::KeyShape shape;
  std::optional<weir_layout> layout;  // empty: as the planner chooses when memory is no question
};

// How many keys the pages get: Poisson, so low and high, eight sigma off, are no accident (with a secret hash nobody
// can bring it about either).
struct KeysPerPage {
  double mean, low, high;
};

struct SizeAnswer {
  weir_layout layout;
  std::string layout_why;
  uint64_t keys;
  unsigned k;
  double bits_per_key;
  uint64_t filter_bytes, exact_bytes;
  uint64_t gate_bytes;   // of one side
  uint64_t total_bytes;  // the snapshot, with one gate
  uint64_t huge_pages;   // that it fills
  KeysPerPage per_page;
  double rate;  // expected false-positive rate
};

// Error: no such filter; names rate and layout.
Result<SizeAnswer> size_table(const SizeQuestion& question);

// A count as people write it: 20M, 1.5k, 2e7, 1_000_000, 3,000. k, M, G: thousands. Error: says what is wrong with it.
Result<uint64_t> parse_count(std::string_view text, uint64_t most);

// A rate: 0.005, 1e-4. Error: out of 1e-9 to 0.5, or not a number.
Result<double> parse_rate(std::string_view text);

}  // namespace weir::control
