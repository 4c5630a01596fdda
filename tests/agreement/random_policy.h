#pragma once

#include <string>

#include "tests/agreement/choices.h"

namespace weir::agreement {

// The middle of the times at which entries of random policies expire.
constexpr uint64_t kNow = 1'800'000'000;

// A policy file without errors: every kind of entry, in a world so small that they nest, overlap and are met often.
std::string random_policy(Choices& choices);

// The same, and a policy of the same lists in the same world with other entries, about n_each in each: what may be
// added to the first one.
struct RandomPolicy {
  std::string policy, others;
};
RandomPolicy random_policy_and_others(Choices& choices, unsigned n_each);

}  // namespace weir::agreement
