#pragma once

#include <span>
#include <string>
#include <vector>

#include "control/tell/answer/status.h"

// The verdict on weir itself: whether the policy is enforced, everywhere.
namespace weir::control {

enum class Gravity : uint8_t { good, warning, problem };

struct Finding {
  Gravity level = Gravity::good;
  std::string text;      // a sentence
  std::string hint;      // the way out; may be empty
  bool is_wrong = true;  // false: a remark, which no monitor has to look at
};

// Sentences of others end as they like: with one full stop.
std::string sentence(std::string text);

// In the order of the things they are about. of_feeds: come between those of the fleet and of the filters.
std::vector<Finding> findings_of(const StatusAnswer& status, std::vector<Finding> of_feeds);

// The target is attached to all of its interfaces, if it has any.
bool is_everywhere(const TargetStatus& target);

// generation 3 is enforced on 1 of 2 targets
std::string enforced_where(const StatusAnswer& status);

// Why packets do not meet the verdicts of the policy now: PASSES NOW: bypass is on ..., NOT ENFORCED: 0 of 1 targets.
// Empty: every target enforces them.
std::string not_enforced(bool is_bypassed, std::span<const TargetStatus> targets);

struct Standing {
  bool is_wrong = false;  // not enforced everywhere, from last good, not durable, a feed refused, ...
  std::string line;       // OK, WARNING or PROBLEM, its cause, and the next command
};
Standing standing_of(const StatusAnswer& status);

}  // namespace weir::control
