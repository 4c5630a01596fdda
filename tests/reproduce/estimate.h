// How many keys a Bloom filter holds, and how many two of them hold together or both, from their bits (Swamidass, Baldi
// 2007). All filters that are compared have the same size and the same hash functions.
#pragma once

#include "tests/reproduce/probes.h"

namespace weir::reproduce {

// ones: bits that are set, of `bits`, by keys that set k each. Without end when all are set. It holds for filters in
// lines, too: a bit is zero with the same probability, only not independently of its neighbours.
inline double cardinality(uint64_t ones, double bits, double k) {
  return -bits / k * std::log1p(-static_cast<double>(ones) / bits);
}

// Standard deviation of that estimate for n keys, as of linear counting with kn draws (Whang, Vander-Zanden, Taylor
// 1990).
inline double cardinality_error(double n, double bits, double k) {
  const double load = k * n / bits;
  return std::sqrt(bits * (std::exp(load) - load - 1)) / k;
}

// Estimates for two sets.
struct SetEstimate {
  double one, other, both_together, in_both;
  double different() const { return both_together - in_both; }  // keys of one of the two only
  double tanimoto() const { return in_both / both_together; }
};

inline SetEstimate estimate(const uint64_t* one, const uint64_t* other, uint64_t bits, unsigned k) {
  uint64_t of_one = 0, of_other = 0, of_union = 0;
  for (uint64_t i = 0; i <= bits >> 6; i++) {
    of_one += static_cast<uint64_t>(__builtin_popcountll(one[i]));
    of_other += static_cast<uint64_t>(__builtin_popcountll(other[i]));
    of_union += static_cast<uint64_t>(__builtin_popcountll(one[i] | other[i]));
  }
  const auto m = static_cast<double>(bits);
  SetEstimate made{cardinality(of_one, m, k), cardinality(of_other, m, k), cardinality(of_union, m, k), 0};
  made.in_both = made.one + made.other - made.both_together;
  return made;
}

}  // namespace weir::reproduce
