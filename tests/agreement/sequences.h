#pragma once

#include <optional>
#include <string>

#include "tests/agreement/agreement.h"
#include "tests/agreement/changing_policy.h"

// Random policies that change: after every step both planes judge frames that are drawn to hit what has just changed.
namespace weir::agreement {

struct SequenceTotals {
  Compared compared;
  Changes changes;
  uint64_t policies = 0, steps = 0;
  uint64_t overlays = 0, bases = 0;  // that were published
  uint64_t compactions = 0;          // bases that were of a state some steps old
  uint64_t missed = 0;               // publications that the planes did not get, but the next one
  uint64_t restarts = 0;             // of both planes
  uint64_t refused = 0;              // changes for which filter.memory is too little; they were taken back
  uint64_t counters = 0;             // comparisons of all counters
  uint64_t disagreements = 0;

  SequenceTotals& operator+=(const SequenceTotals& more);
};

// The policy of this seed, and so many steps. Adds to totals. Returns what differs first, which is where it ends.
std::optional<std::string> run_sequence(uint64_t seed, uint64_t steps, XdpPlane* xdp, SequenceTotals& totals);

}  // namespace weir::agreement
