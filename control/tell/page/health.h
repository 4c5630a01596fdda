#pragma once

#include <string>
#include <vector>

#include "control/tell/answer/standing.h"
#include "control/tell/page/facts.h"

// The verdict on weir itself: whether what the policy says is enforced, everywhere.
namespace weir::control::page {

struct Health {
  Gravity level = Gravity::good;
  std::string headline;           // one sentence
  std::vector<Finding> findings;  // what the headline does not say, the gravest first
};

Health health_of(const Facts& facts);

// 3 min ago; in 5 min; never (of 0).
std::string when(int64_t unix_s, double now);
// 24 Nov 18:02 UTC, with the year when it is another one.
std::string clock_time(int64_t unix_s, double now);

}  // namespace weir::control::page
