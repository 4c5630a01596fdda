#include "control/enforce/rates/binomial.h"

#include <cmath>

namespace weir::control {

namespace {

double log_probability(double k, double n, double p) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(p) + (n - k) * std::log1p(-p);
}

// From a number of successes away from the mean, where each term is smaller than the one before.
template <class Next>
double sum_from(double k, double n, double p, Next next) {
  constexpr double kNoMore = 1e-17;  // of the sum: what 64-bit floating point cannot tell
  double sum = 0;
  for (double term = std::exp(log_probability(k, n, p)); term > sum * kNoMore; term *= next(k)) sum += term;
  return sum;
}

double upper(double k, double n, double p) {
  return sum_from(k, n, p, [&](double& at) {
    const double ratio = (n - at) / (at + 1) * p / (1 - p);
    at++;
    return ratio;
  });
}

double lower(double k, double n, double p) {
  return sum_from(k, n, p, [&](double& at) {
    const double ratio = at / (n - at + 1) * (1 - p) / p;
    at--;
    return ratio;
  });
}

// Where a function that rises with p passes a value; accurate to 2^-50.
template <class Rises>
double where(double value, Rises rises) {
  double low = 0, high = 1;
  for (int step = 0; step < 50; step++) {
    const double middle = (low + high) / 2;
    (rises(middle) < value ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

double at_least(uint64_t successes, uint64_t n, double p) {
  const auto k = static_cast<double>(successes), all = static_cast<double>(n);
  if (successes == 0) return 1;
  if (successes > n || p <= 0) return 0;
  if (p >= 1) return 1;
  return k > all * p ? upper(k, all, p) : 1 - lower(k - 1, all, p);
}

double at_most(uint64_t successes, uint64_t n, double p) {
  const auto k = static_cast<double>(successes), all = static_cast<double>(n);
  if (successes >= n || p <= 0) return 1;
  if (p >= 1) return 0;
  return k < all * p ? lower(k, all, p) : 1 - upper(k + 1, all, p);
}

Interval clopper_pearson(uint64_t successes, uint64_t n, double confidence) {
  const double tail = (1 - confidence) / 2;
  Interval interval;
  if (n == 0) return interval;
  if (successes > 0) interval.low = where(tail, [&](double p) { return at_least(successes, n, p); });
  if (successes < n) interval.high = where(1 - tail, [&](double p) { return 1 - at_most(successes, n, p); });
  return interval;
}

}  // namespace weir::control
