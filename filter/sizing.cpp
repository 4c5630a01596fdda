#include "filter/sizing.h"

#include <algorithm>
#include <cmath>

#include "filter/snapshot.h"

namespace weir::filter {
namespace {

// Far enough from the mean that what a Poisson sum leaves out does not show in 64-bit floating point: 12 standard
// deviations, and 60 more for small means, whose upper tail is longer than a normal one's.
constexpr double kTailSigmas = 12;
constexpr double kTailTerms = 60;

// Keys in a line past which every bit of it is set for all that 64-bit floating point can say: (63/64)^4096 < 1e-28.
constexpr double kFullLine = 4096;

// A page of an exact stage that gets more keys than it has slots makes the build fail (and be repeated with another
// secret). Wanted less often than this, per table.
constexpr double kPageOverflowProbability = 1e-9;

// Small tables could be nearly full without that risk, but then most keys do not lie in their first bucket. At 70 %
// about one bucket in eight has overflowed (7 slots, Poisson mean 4.9); larger tables end up at 45 to 70 % by the rule
// above.
constexpr double kMaxLoad = 0.70;

constexpr uint32_t kMaxPages = (uint32_t{1} << 26) - 1;  // times 64 buckets stays below 2^32

double log_poisson(double mean, double j) {
  return j * std::log(mean) - mean - std::lgamma(j + 1);
}

// Probability that a page of `capacity` slots gets more keys, when pages get `mean` keys on average. Keys per page are
// binomial; the Poisson tail used here bounds it from above.
double overflow_probability(double mean, double capacity) {
  if (mean >= capacity) return 1;
  double term = std::exp(log_poisson(mean, capacity + 1));
  double sum = 0;
  for (double j = capacity + 2; term > sum * 1e-12; j++) {
    sum += term;
    term *= mean / j;
  }
  return sum;
}

// The smallest value in 1..most for which fits() holds; fits() never turns false again. most when none does.
template <class Fits>
uint32_t smallest(uint32_t most, Fits fits) {
  uint32_t low = 1, high = most;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

double line8_fpr(uint64_t n_keys, uint32_t lines) {
  if (n_keys == 0) return 0;
  const double mean = static_cast<double>(n_keys) / lines;
  if (mean >= kFullLine) return 1;
  const double reach = kTailSigmas * std::sqrt(mean) + kTailTerms;
  const double first = std::floor(std::max(0.0, mean - reach));
  const double word_keeps_clear = 63.0 / 64.0;  // one key sets one of the 64 bits of each word
  double probability = std::exp(log_poisson(mean, first));
  double rate = 0;
  for (double j = first; j <= mean + reach; j++) {
    rate += probability * std::pow(1 - std::pow(word_keeps_clear, j), 8);
    probability *= mean / (j + 1);
  }
  return rate;
}

uint32_t line8_lines(uint64_t n_keys, double false_positive_rate) {
  return smallest(UINT32_MAX, [&](uint32_t lines) { return line8_fpr(n_keys, lines) <= false_positive_rate; });
}

uint32_t exact_buckets(uint64_t n_keys, unsigned slots) {
  const double capacity = WEIR_LINES_PER_PAGE * slots;
  const double keys = static_cast<double>(n_keys);
  const uint32_t pages = smallest(kMaxPages, [&](uint32_t n) {
    if (keys > kMaxLoad * capacity * n) return false;
    if (keys <= capacity) return true;  // even all of them in one page fit
    return n * overflow_probability(keys / n, capacity) < kPageOverflowProbability;
  });
  return pages * WEIR_LINES_PER_PAGE;
}

}  // namespace weir::filter
