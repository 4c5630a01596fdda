#pragma once

#include <string>
#include <vector>

#include "control/compile/preview/radius.h"
#include "control/policy/model/policy.h"

namespace weir::control {

// A limit of `plan` that a candidate exceeds.
struct OverLimit {
  std::string limit;  // max_newly_dropped, max_newly_passed
  double allowed = 0;
  Share would_be;
  std::string text() const;  // one line for people
};

// Those that it exceeds. Nothing is known of traffic that was not seen: without samples none.
std::vector<OverLimit> over_limits(const PlanSettings& settings, const Radius& radius);

}  // namespace weir::control
