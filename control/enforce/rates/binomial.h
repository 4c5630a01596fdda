#pragma once

#include <cstdint>

// Of n independent trials, each of which succeeds with probability p.
namespace weir::control {

// That there are so many successes, or more; or fewer.
double at_least(uint64_t successes, uint64_t n, double p);
double at_most(uint64_t successes, uint64_t n, double p);

// Which probabilities are not refuted by what was seen: the exact interval of Clopper and Pearson (Biometrika 26,
// 1934). It holds in at least so many of all cases, whatever p is: also of a few successes, and of none, where
// approximations by the normal distribution are too narrow.
struct Interval {
  double low = 0, high = 1;
};
Interval clopper_pearson(uint64_t successes, uint64_t n, double confidence = 0.95);

}  // namespace weir::control
