#include <cmath>
#include <random>
#include <vector>

#include "control/enforce/rates/binomial.h"
#include "tests/catch.h"

using namespace weir::control;

namespace {

// The definition, term by term: for few trials.
double sum_of(uint64_t from, uint64_t to, uint64_t n, double p) {
  double sum = 0;
  for (uint64_t k = from; k <= to && k <= n; k++) {
    double term = 1;
    for (uint64_t i = 0; i < k; i++) term *= static_cast<double>(n - i) / static_cast<double>(i + 1) * p;
    sum += term * std::pow(1 - p, static_cast<double>(n - k));
  }
  return sum;
}

bool is_near(double one, double other, double relative = 1e-9) {
  return std::abs(one - other) <= relative * std::max(std::abs(one), std::abs(other));
}

}  // namespace

TEST_CASE("tails are the sums that define them") {
  for (const uint64_t n : {1u, 2u, 7u, 40u}) {
    for (const double p : {0.004, 0.1, 0.5, 0.93}) {
      for (uint64_t k = 0; k <= n; k++) {
        INFO(k << " of " << n << " at " << p);
        CHECK(is_near(at_least(k, n, p), sum_of(k, n, n, p), 1e-7));
        CHECK(is_near(at_most(k, n, p), sum_of(0, k, n, p), 1e-7));
      }
    }
  }
}

TEST_CASE("what cannot be, and what must be") {
  CHECK(at_least(0, 0, 0.5) == 1);
  CHECK(at_most(0, 0, 0.5) == 1);
  CHECK(at_least(1, 10, 0) == 0);
  CHECK(at_least(10, 10, 1) == 1);
  CHECK(at_most(9, 10, 1) == 0);
  CHECK(at_least(11, 10, 0.5) == 0);
  const double rare = at_least(6, 6, 0.0042);  // far out a tail still is a number
  CHECK(is_near(rare, std::pow(0.0042, 6)));
  CHECK(at_least(32768, 32768, 0.0042) == 0);  // below what 64-bit floating point has
}

// Clopper, Pearson 1934, and any table since.
TEST_CASE("intervals of the literature") {
  const Interval none = clopper_pearson(0, 10);
  CHECK(none.low == 0);
  CHECK(is_near(none.high, 0.30849710781876083));
  const Interval one = clopper_pearson(1, 10);
  CHECK(is_near(one.low, 0.0025285785444617));
  CHECK(is_near(one.high, 0.4450161170));
  const Interval half = clopper_pearson(5, 10);
  CHECK(is_near(half.low, 0.1870860284, 1e-8));
  CHECK(is_near(half.high, 0.8129139716, 1e-8));
  const Interval all = clopper_pearson(10, 10);
  CHECK(is_near(all.low, 1 - 0.30849710781876083));
  CHECK(all.high == 1);
  const Interval nothing = clopper_pearson(0, 0);
  CHECK(nothing.low == 0);
  CHECK(nothing.high == 1);
}

TEST_CASE("an interval holds the truth at least as often as it says") {
  std::mt19937_64 random(1);
  for (const double p : {0.0042, 0.1}) {
    for (const uint64_t n : {200u, 3000u}) {
      constexpr int kTimes = 400;
      int held = 0;
      std::binomial_distribution<uint64_t> successes(n, p);
      for (int i = 0; i < kTimes; i++) {
        const Interval interval = clopper_pearson(successes(random), n);
        held += interval.low <= p && p <= interval.high;
      }
      INFO(held << " of " << kTimes << " at " << p << " of " << n);
      CHECK(held >= kTimes * 92 / 100);  // 95 % but for three standard deviations of the count
    }
  }
}
