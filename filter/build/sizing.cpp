#include "filter/build/sizing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>

#include "filter/layouts/layout.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"
#include "filter/layouts/ribbon.h"

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

constexpr uint32_t kMaxPages = (uint32_t{1} << 26) - 1;  // times 64 lines or buckets stays below 2^32

double log_poisson(double mean, double j) {
  return j * std::log(mean) - mean - std::lgamma(j + 1);
}

// The mean of rate(j) over j, Poisson with this mean: the keys that share a line or a page.
template <class Rate>
double poisson_mixture(double mean, Rate rate) {
  const double reach = kTailSigmas * std::sqrt(mean) + kTailTerms;
  const double first = std::floor(std::max(0.0, mean - reach));
  double probability = std::exp(log_poisson(mean, first));
  double sum = 0;
  for (double j = first; j <= mean + reach; j++) {
    sum += probability * rate(j);
    probability *= mean / (j + 1);
  }
  return sum;
}

double keys_per_line(uint64_t n_keys, uint32_t lines) {
  return static_cast<double>(n_keys) / lines;
}

// One of the two lines of a page2 key: the probability that all k/2 words which a query looks at have its bit, with
// `mean` keys a line. Inclusion and exclusion over the subsets of those words: a key that marks the line misses the
// query's bit in all words of the subset with probability (63/64)^(those that it marks at all); its window starts
// anywhere, so that is averaged over the eight starts; and the mean of x^j over j, Poisson, is exp(-mean (1 - x)).
double page2_line_rate(double mean, unsigned k) {
  const unsigned n_words = k / 2;
  double rate = 0;
  for (unsigned subset = 0; subset < 1u << n_words; subset++) {
    double misses = 0;
    for (unsigned start = 0; start < 8; start++) {
      misses += std::pow(63.0 / 64, std::popcount(subset & weir_page2_words(start, n_words))) / 8;
    }
    const double sign = std::popcount(subset) % 2 == 0 ? 1 : -1;
    rate += sign * std::exp(-mean * (1 - misses));
  }
  return std::max(rate, 0.0);
}

// How many of the keys of a ribbon page, Poisson with this mean, say nothing new, on average. Row after row: `open` is
// the number of independent equations that no row is bound to yet. They span 2^open of the 2^64 sums over the next 64
// rows, so a new key, whose first coefficient is 1, is one of them with probability 2^(open - 64). Then the row binds
// one equation, if any has a 1 there: a key that begins here has, each of the others with probability 1/2.
double ribbon_redundant_keys(double mean) {
  constexpr unsigned kMost = WEIR_RIBBON_WIDTH;
  using Distribution = std::array<double, kMost + 1>;  // of `open`
  const double per_row = mean / WEIR_RIBBON_STARTS;
  Distribution open = {1};
  double redundant = 0;
  for (unsigned row = 0; row < WEIR_RIBBON_STARTS; row++) {
    Distribution after = {};
    double exactly = std::exp(-per_row);  // the probability of so many keys that begin here
    double more = 1 - exactly;            // and of more than that
    for (unsigned keys = 0; exactly > 1e-18 || more > 1e-12; keys++) {
      after[0] += exactly * open[0];
      for (unsigned n = 1; n <= kMost; n++) {
        const double binds = keys > 0 ? 1 : 1 - std::ldexp(1, -static_cast<int>(n));
        after[n] += exactly * open[n] * (1 - binds);
        after[n - 1] += exactly * open[n] * binds;
      }
      for (unsigned n = kMost + 1; n-- > 0;) {
        const double known = open[n] * std::ldexp(1, static_cast<int>(n) - static_cast<int>(kMost));
        redundant += more * known;
        const double grows = open[n] - known;
        open[n] = known;
        if (n < kMost) open[n + 1] += grows;
      }
      exactly *= per_row / (keys + 1);
      more = std::max(0.0, more - exactly);
    }
    open = after;
  }
  return redundant;
}

// The smallest value in 1..most for which fits() holds; fits() never turns false again. 0 when none does.
template <class Fits>
uint32_t smallest(uint32_t most, Fits fits) {
  if (!fits(most)) return 0;
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

// Keys a page at which a ribbon has the wanted rate: the rate depends on nothing else, and is slow to compute. 0 when
// no number of keys is few enough.
double ribbon_keys_per_page(double false_positive_rate) {
  static std::mutex mutex;
  static std::map<double, double> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(false_positive_rate);
  if (!is_new) return at->second;
  at->second = smallest(WEIR_RIBBON_ROWS, [&](uint32_t fewer) {
    return ribbon_fpr(WEIR_RIBBON_ROWS - fewer, WEIR_LINES_PER_PAGE) <= false_positive_rate;
  });
  at->second = at->second == 0 ? 0 : WEIR_RIBBON_ROWS - at->second;
  return at->second;
}

// Fuller than at 0.4 %, 9 bits a key, the few pages that happen to be fullest make a ribbon's rate, and no few pages
// follow the mean.
std::optional<FilterSize> size_ribbon(uint64_t n_keys, double false_positive_rate) {
  const double keys_per_page = ribbon_keys_per_page(std::min(false_positive_rate, kFullestRibbonRate));
  if (keys_per_page == 0) return std::nullopt;
  const double pages = std::max(1.0, std::ceil(static_cast<double>(n_keys) / keys_per_page));
  if (pages > kMaxPages) return std::nullopt;
  return FilterSize{static_cast<uint32_t>(pages) * WEIR_LINES_PER_PAGE, WEIR_RIBBON_BITS};
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

}  // namespace

double line8_fpr(uint64_t n_keys, uint32_t lines) {
  const double mean = keys_per_line(n_keys, lines);
  if (n_keys == 0 || mean >= kFullLine) return n_keys == 0 ? 0 : 1;
  const double stays_clear = 63.0 / 64;  // one key sets one of the 64 bits of each word
  return poisson_mixture(mean, [&](double j) { return std::pow(1 - std::pow(stays_clear, j), 8); });
}

// Two different lines of a page have nearly independent numbers of keys.
double page2_fpr(uint64_t n_keys, uint32_t lines, unsigned k) {
  const double mean = 2 * keys_per_line(n_keys, lines);
  if (n_keys == 0 || mean >= kFullLine) return n_keys == 0 ? 0 : 1;
  const double rate = page2_line_rate(mean, k);
  return rate * rate;
}

// k bits anywhere in a page of W: E^k, and the second-order term for the variance V of the fill
// (docs/develop/filter.md).
double page7_fpr(uint64_t n_keys, uint32_t lines) {
  constexpr double kBits = WEIR_PAGE_BYTES * 8.0, k = WEIR_PAGE7_K;
  const double mean = keys_per_line(n_keys, lines) * WEIR_LINES_PER_PAGE;
  if (n_keys == 0 || mean >= kFullLine * WEIR_LINES_PER_PAGE) return n_keys == 0 ? 0 : 1;
  return poisson_mixture(mean, [&](double j) {
    const double q1 = std::pow(1 - 1 / kBits, k * j), q2 = std::pow(1 - 2 / kBits, k * j);
    const double filled = 1 - q1, variance = q1 / kBits + (1 - 1 / kBits) * q2 - q1 * q1;
    return std::pow(filled, k) + k * (k - 1) / 2 * std::pow(filled, k - 2) * variance;
  });
}

// 2^-8 for a stranger whose sum is new; certain for one that the page's keys imply. The share of the latter is how
// many redundant keys one more key makes, the derivative of ribbon_redundant_keys.
double ribbon_fpr(uint64_t n_keys, uint32_t lines) {
  if (n_keys == 0) return std::ldexp(1, -static_cast<int>(WEIR_RIBBON_BITS));
  const double mean = keys_per_line(n_keys, lines) * WEIR_LINES_PER_PAGE;
  if (mean >= 2 * WEIR_RIBBON_ROWS) return 1;
  const double step = mean / 1000;
  const double implied = (ribbon_redundant_keys(mean + step) - ribbon_redundant_keys(mean - step)) / (2 * step);
  const double by_chance = std::ldexp(1, -static_cast<int>(WEIR_RIBBON_BITS));
  return by_chance + (1 - by_chance) * std::clamp(implied, 0.0, 1.0);
}

double layout_fpr(weir_layout layout, uint64_t n_keys, uint32_t lines, unsigned k) {
  switch (layout) {
    case WEIR_LAYOUT_LINE8:
      return line8_fpr(n_keys, lines);
    case WEIR_LAYOUT_PAGE2:
      return page2_fpr(n_keys, lines, k);
    case WEIR_LAYOUT_PAGE7:
      return page7_fpr(n_keys, lines);
    case WEIR_LAYOUT_RIBBON:
      return ribbon_fpr(n_keys, lines);
    case WEIR_LAYOUT_BITMAP:
      return 0;
  }
  return 0;
}

std::optional<FilterSize> size_filter(weir_layout layout, uint64_t n_keys, double false_positive_rate) {
  if (layout == WEIR_LAYOUT_BITMAP) return std::nullopt;
  if (layout == WEIR_LAYOUT_RIBBON) return size_ribbon(n_keys, false_positive_rate);
  const Layout& properties = layout_of(layout);
  const uint32_t unit = properties.unit_lines;
  std::optional<FilterSize> best;
  for (unsigned k = properties.min_k; k <= properties.max_k; k += properties.step_k) {
    const uint32_t units = smallest(unit == 1 ? UINT32_MAX : kMaxPages, [&](uint32_t n) {
      return layout_fpr(layout, n_keys, n * unit, k) <= false_positive_rate;
    });
    if (units != 0 && (!best || units * unit < best->lines)) best = {units * unit, static_cast<uint8_t>(k)};
  }
  return best;
}

uint32_t exact_buckets(uint64_t n_keys, unsigned slots, uint32_t per_page) {
  const double capacity = static_cast<double>(per_page) * slots;
  const double keys = static_cast<double>(n_keys);
  const uint32_t pages = smallest(kMaxPages, [&](uint32_t n) {
    if (n == kMaxPages) return true;  // no more can be had
    if (keys > kMaxLoad * capacity * n) return false;
    if (keys <= capacity) return true;  // even all of them in one page fit
    return n * overflow_probability(keys / n, capacity) < kPageOverflowProbability;
  });
  return pages * per_page;
}

}  // namespace weir::filter
