#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/compile/merge/merge.h"
#include "control/compile/plan/levels.h"
#include "control/policy/model/policy.h"

// fit: which levels, in which layouts, so that a snapshot stays within policy.memory_bytes.
namespace weir::control {

struct SizedLevel {
  Level level;
  weir_layout layout;
  std::string layout_why;
  double keys;   // exact; bitmap: 0, its bytes do not depend on them
  double bytes;  // without rounding to pages and, for a bitmap, without rule chunks: the true size is never below
};

using Mixture = std::vector<SizedLevel>;

// The bytes of the whole snapshot, made for real.
using TrueBytes = std::function<Result<double>(const Mixture&)>;

// Asks true_bytes about mixtures, those with the fewest nanoseconds a packet first, until one fits: that one was asked
// about last. First comes what choose_levels finds cheapest; then, whichever is cheaper for a packet, the same with as
// few compact filters (ribbon) as make it fit, or less expansion. Error: true_bytes' own; or even the smallest is too
// large: says needed, allowed, the largest shapes, ways out.
Result<void> fit(const Merged& merged, const Policy& policy, const TrueBytes& true_bytes);

// Why the planner chose the layout of this rate: "0.5 % wanted", "0.01 % wanted, below 0.1 %".
std::string reason_of_rate(double false_positive_rate);

// "v4 addr/32", "v4 addr/24 bitmap", "v6 addr/48", "v4 addr/32 + port", "v4 src/24 + dst/32 + proto + dport"
std::string shape_name(filter::KeyShape shape, bool bitmap);

}  // namespace weir::control
