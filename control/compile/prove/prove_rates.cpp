#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "control/compile/plan/plan.h"
#include "control/compile/prove/prove.h"
#include "control/compile/prove/split_mix.h"
#include "filter/build/sizing.h"
#include "filter/layouts/layout.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"
#include "filter/probe/exact.h"

namespace weir::control {
namespace {

constexpr unsigned kAbsentKeys = 65536;  // tried per shape
// A ribbon's bits say nothing by themselves: hits are all there is, and so many of them put six sigma at 10 %.
constexpr unsigned kAbsentKeysOfRibbon = 16 * kAbsentKeys;

// Sampling errors: six standard deviations, a false alarm once in about 10^8 proofs.
constexpr double kSigmas = 6;
constexpr double kFormulaSlack = 0.05;  // of the formula's rate
// Layouts of pages, nearly empty: rates far below the wanted one come from a handful of keys that share a line, and are
// no normal distribution. A hundredth of the rate that they would have with some keys more is always allowed.
constexpr double kFullerSlack = 0.01;
constexpr uint64_t kFullerBy = 64;

constexpr unsigned kLineWords = 8, kPageWords = WEIR_PAGE_BYTES / 8, kPageBits = WEIR_PAGE_BYTES * 8;

// The rate that a filter should have, and how far from it that of its bits may be by chance.
struct Expected {
  double rate;
  double slack;
};

// Sum over j, Poisson with this mean, of f(j) {a value and its square}: {mean, variance} of the value.
template <class Moments>
std::array<double, 2> poisson_moments(double mean, Moments f) {
  const double reach = 12 * std::sqrt(mean) + 60;  // Poisson beyond: below 1e-15
  const double first = std::floor(std::max(0.0, mean - reach));
  double probability = std::exp(first * std::log(mean) - mean - std::lgamma(first + 1));
  double value = 0, square = 0;
  for (double j = first; j <= mean + reach; j++) {
    const std::array<double, 2> moments = f(j);
    value += probability * moments[0];
    square += probability * moments[1];
    probability *= mean / (j + 1);
  }
  return {value, std::max(0.0, square - value * value)};
}

// {mean, variance}, over lines, of the product of the fills X/64 of n_words words. With j keys in the line, Poisson
// with mean keys_per_line, of which each sets a bit in a given word with probability p:  E[X/64] = 1 - q1, E[(X/64)^2]
// = 1 - 2 q1 + q1/64 + q2 63/64, q1 = (1 - p/64)^j, q2 = (1 - 2p/64)^j: a given bit, a given pair of bits, is clear.
// The words are taken as independent.
std::array<double, 2> line_moments(double keys_per_line, unsigned n_words, double p) {
  return poisson_moments(keys_per_line, [&](double j) -> std::array<double, 2> {
    const double q1 = std::pow(1 - p / 64, j), q2 = std::pow(1 - 2 * p / 64, j);
    return {std::pow(1 - q1, n_words), std::pow(1 - 2 * q1 + q1 / 64 + q2 * 63 / 64, n_words)};
  });
}

// The same over pages of fill^k; the fill given the keys is all but exact, its variance V as in FILTERS section 7.
std::array<double, 2> page_moments(double keys_per_page, unsigned k) {
  return poisson_moments(keys_per_page, [&](double j) -> std::array<double, 2> {
    const double q1 = std::pow(1 - 1.0 / kPageBits, k * j), q2 = std::pow(1 - 2.0 / kPageBits, k * j);
    const double fill = 1 - q1, variance = std::max(0.0, q1 / kPageBits + (1 - 1.0 / kPageBits) * q2 - q1 * q1);
    const auto power = [&](double n) {
      return std::pow(fill, n) + (fill > 0 ? n * (n - 1) / 2 * std::pow(fill, n - 2) * variance : 0);
    };
    return {power(k), power(2 * k)};
  });
}

uint64_t word_of(const filter::ShapeView& shape, uint32_t line, unsigned word) {
  return filter::load_word(shape.filter.bits + size_t{line} * WEIR_LINE_BYTES + word * sizeof(uint64_t));
}

using Fills = std::array<double, kLineWords>;

Fills fills_of(const filter::ShapeView& shape, uint32_t line) {
  Fills fills;
  for (unsigned w = 0; w < kLineWords; w++) fills[w] = std::popcount(word_of(shape, line, w)) / 64.0;
  return fills;
}

// --- The rate that the bits imply, by layout. A random key falls on every line, and on every bit of a word (page7: of
// --- the page), equally often.

double line8_bits_rate(const filter::ShapeView& shape) {
  double sum = 0;
  for (uint32_t line = 0; line < shape.filter.lines; line++) {
    double rate = 1;
    for (const double fill : fills_of(shape, line)) rate *= fill;
    sum += rate;
  }
  return sum / shape.filter.lines;
}

// A page's keys take each of its 64 * 63 ordered pairs of lines equally often, and in each line a window of k/2 words
// from each of the eight starts.
double page2_bits_rate(const filter::ShapeView& shape) {
  constexpr double kPairs = WEIR_LINES_PER_PAGE * (WEIR_LINES_PER_PAGE - 1.0);
  double total = 0;
  for (uint32_t page = 0; page < shape.filter.lines; page += WEIR_LINES_PER_PAGE) {
    double sum = 0, squares = 0;
    for (uint32_t line = page; line < page + WEIR_LINES_PER_PAGE; line++) {
      const Fills fills = fills_of(shape, line);
      double rate = 0;
      for (unsigned start = 0; start < kLineWords; start++) {
        double product = 1;
        for (unsigned w = 0; w < shape.filter.k / 2; w++) product *= fills[(start + w) % kLineWords];
        rate += product / kLineWords;
      }
      sum += rate;
      squares += rate * rate;
    }
    total += (sum * sum - squares) / kPairs;
  }
  return total / (shape.filter.lines / WEIR_LINES_PER_PAGE);
}

double page7_bits_rate(const filter::ShapeView& shape) {
  double sum = 0;
  for (uint32_t page = 0; page < shape.filter.lines; page += WEIR_LINES_PER_PAGE) {
    unsigned set = 0;
    for (unsigned w = 0; w < kPageWords; w++) {
      set += static_cast<unsigned>(std::popcount(word_of(shape, page + w / kLineWords, w % kLineWords)));
    }
    sum += std::pow(static_cast<double>(set) / kPageBits, WEIR_PAGE7_K);
  }
  return sum / (shape.filter.lines / WEIR_LINES_PER_PAGE);
}

// --- What these should be ----------------------------------------------------------------------------------------

Expected expected_rate(const filter::ShapeView& shape, const weir_shape& described) {
  const double lines = shape.filter.lines, pages = lines / WEIR_LINES_PER_PAGE;
  const double keys_per_line = static_cast<double>(described.n_keys) / lines;
  const double rate = filter::layout_fpr(shape.layout, described.n_keys, shape.filter.lines, shape.filter.k);
  const auto fuller = [&] {
    return filter::layout_fpr(shape.layout, described.n_keys + kFullerBy, shape.filter.lines, shape.filter.k);
  };
  const double slack = kFormulaSlack * rate;
  switch (shape.layout) {
    case WEIR_LAYOUT_LINE8:
      return {rate, slack + kSigmas * std::sqrt(line_moments(keys_per_line, kLineWords, 1)[1] / lines)};
    case WEIR_LAYOUT_PAGE2: {
      // The mean of products of two lines' rates, so twice the error of the mean of one; the mean over eight windows
      // varies less than one of them.
      const double half = shape.filter.k / 2.0;
      const auto [mean, variance] = line_moments(2 * keys_per_line, shape.filter.k / 2, half / kLineWords);
      return {rate, slack + kFullerSlack * fuller() + kSigmas * 2 * mean * std::sqrt(variance / lines)};
    }
    case WEIR_LAYOUT_PAGE7: {
      const double variance = page_moments(keys_per_line * WEIR_LINES_PER_PAGE, WEIR_PAGE7_K)[1];
      return {rate, slack + kFullerSlack * fuller() + kSigmas * std::sqrt(variance / pages)};
    }
    default:
      return {rate, slack};
  }
}

// Empty: the layout's bits do not tell.
using BitsRate = double (*)(const filter::ShapeView&);
BitsRate bits_rate(weir_layout layout) {
  switch (layout) {
    case WEIR_LAYOUT_LINE8:
      return line8_bits_rate;
    case WEIR_LAYOUT_PAGE2:
      return page2_bits_rate;
    case WEIR_LAYOUT_PAGE7:
      return page7_bits_rate;
    default:
      return nullptr;
  }
}

// Keys of random words. A stored key is zero in all bits that its shape leaves out, or, when it is an IPv6 address, one
// of 2^64 or more: no random one meets it. So all are absent, and every hit is a false positive.
unsigned hits_of_absent(const filter::Kernels& kernels, const filter::ShapeView& shape, unsigned n, SplitMix& random) {
  unsigned hits = 0;
  uint64_t words[WEIR_MAX_KEY_WORDS][filter::kMaxBatch];
  const uint64_t* const columns[WEIR_MAX_KEY_WORDS] = {words[0], words[1], words[2], words[3], words[4]};
  uint64_t hash[filter::kMaxBatch];
  for (unsigned done = 0; done < n; done += filter::kMaxBatch) {
    for (unsigned w = 0; w < filter::key_words(shape.shape); w++) {
      for (uint64_t& word : words[w]) word = random.next();
    }
    const uint64_t mask = filter::filter_check(kernels, shape, columns, filter::kMaxBatch, hash);
    hits += static_cast<unsigned>(std::popcount(mask));
  }
  return hits;
}

// How far the number of hits may lie from its mean. Bernstein's inequality at the probability of kSigmas: six sigma
// when many hits are expected, and right also when hardly any are and the tail is Poisson's.
double tolerance(double mean_hits) {
  const double exponent = kSigmas * kSigmas / 2;
  return exponent / 3 + std::sqrt(exponent * exponent / 9 + 2 * exponent * mean_hits);
}

Result<void> prove_rate(const filter::ShapeView& shape, const weir_shape& described, const filter::Kernels& kernels,
                        SplitMix& random) {
  const std::string name = shape_name(shape.shape, false);
  const Expected formula = expected_rate(shape, described);
  const BitsRate rate_of_bits = bits_rate(shape.layout);
  const double rate = rate_of_bits != nullptr ? rate_of_bits(shape) : formula.rate;
  if (std::abs(rate - formula.rate) > formula.slack) {
    return Error{
        fmt::format("proof failed: the filter of {} has a false-positive rate of {:.3g}; {} keys in {} lines ({}) give "
                    "{:.3g} +- {:.2g}",
                    name, rate, described.n_keys, shape.filter.lines, filter::layout_of(shape.layout).name,
                    formula.rate, formula.slack)};
  }
  const unsigned tried = rate_of_bits != nullptr ? kAbsentKeys : kAbsentKeysOfRibbon;
  const double expected = rate * tried;
  const double most_off = tolerance(expected) + (rate_of_bits != nullptr ? 0 : formula.slack * tried);
  const unsigned hits = hits_of_absent(kernels, shape, tried, random);
  if (std::abs(hits - expected) > most_off) {
    return Error{fmt::format("proof failed: {} of {} absent keys hit the filter of {}; its {} give {:.1f} +- {:.1f}",
                             hits, tried, name, rate_of_bits != nullptr ? "bits" : "keys", expected, most_off)};
  }
  return {};
}

}  // namespace

Result<void> prove_rates(const filter::SnapshotView& snapshot, const filter::Kernels& kernels, uint64_t seed) {
  SplitMix random{seed};
  for (size_t i = 0; i < snapshot.shapes().size(); i++) {
    const filter::ShapeView& shape = snapshot.shapes()[i];
    const weir_shape& described = snapshot.header().shapes[i];
    if (shape.layout == WEIR_LAYOUT_BITMAP || described.n_keys == 0) continue;
    if (auto ok = prove_rate(shape, described, kernels, random); !ok) return ok;
  }
  return {};
}

}  // namespace weir::control
