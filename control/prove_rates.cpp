#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "control/plan.h"
#include "control/prove.h"
#include "control/split_mix.h"
#include "filter/sizing.h"

namespace weir::control {
namespace {

constexpr unsigned kAbsentKeys = 65536;  // tried per shape

// Sampling errors: six standard deviations, a false alarm once in about 10^8 proofs.
constexpr double kSigmas = 6;
constexpr double kFormulaSlack = 0.05;  // of the formula's rate

// Variance, over lines, of a line's false-positive rate f = product of its eight words' fill X/64. With j keys in the
// line, j Poisson with mean keys/lines:  E[X/64] = 1 - q1,  E[(X/64)^2] = 1 - 2 q1 + q1/64 + q2 63/64,
// q1 = (63/64)^j, q2 = (62/64)^j: a given bit, a given pair of bits, is clear. The words are independent.
double line_rate_variance(double keys_per_line) {
  const double reach = 12 * std::sqrt(keys_per_line) + 60;  // Poisson beyond: below 1e-15
  const double first = std::floor(std::max(0.0, keys_per_line - reach));
  double probability = std::exp(first * std::log(keys_per_line) - keys_per_line - std::lgamma(first + 1));
  double mean = 0, mean_square = 0;
  for (double j = first; j <= keys_per_line + reach; j++) {
    const double q1 = std::pow(63.0 / 64, j), q2 = std::pow(62.0 / 64, j);
    mean += probability * std::pow(1 - q1, 8);
    mean_square += probability * std::pow(1 - 2 * q1 + q1 / 64 + q2 * 63 / 64, 8);
    probability *= keys_per_line / (j + 1);
  }
  return std::max(0.0, mean_square - mean * mean);
}

// The rate that the bits imply: a random key falls on every line, and on every bit of a word, equally often.
double rate_of_bits(const filter::ShapeView& shape) {
  double sum = 0;
  for (uint32_t line = 0; line < shape.filter.lines; line++) {
    double rate = 1;
    for (unsigned w = 0; w < 8; w++) {
      const uint64_t word =
          filter::load_word(shape.filter.bits + size_t{line} * WEIR_LINE_BYTES + w * sizeof(uint64_t));
      rate *= std::popcount(word) / 64.0;
    }
    sum += rate;
  }
  return sum / shape.filter.lines;
}

// Keys of random words. A stored key is zero in all bits that its shape leaves out, or, when it is an IPv6 address, one
// of 2^64 or more: no random one meets it. So all are absent, and every hit is a false positive.
unsigned hits_of_absent(const filter::Kernels& kernels, const filter::ShapeView& shape, SplitMix& random) {
  unsigned hits = 0;
  uint64_t words[WEIR_MAX_KEY_WORDS][filter::kMaxBatch];
  const uint64_t* const columns[WEIR_MAX_KEY_WORDS] = {words[0], words[1], words[2], words[3], words[4]};
  uint64_t hash[filter::kMaxBatch];
  for (unsigned done = 0; done < kAbsentKeys; done += filter::kMaxBatch) {
    for (auto& column : words) {
      for (uint64_t& word : column) word = random.next();
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

}  // namespace

Result<void> prove_rates(const filter::SnapshotView& snapshot, const filter::Kernels& kernels, uint64_t seed) {
  SplitMix random{seed};
  for (size_t i = 0; i < snapshot.shapes().size(); i++) {
    const filter::ShapeView& shape = snapshot.shapes()[i];
    if (shape.layout != WEIR_LAYOUT_LINE8) continue;
    const uint64_t n_keys = snapshot.header().shapes[i].n_keys;
    if (n_keys == 0) continue;
    const std::string name = shape_name(shape.shape, false);

    const double formula = filter::line8_fpr(n_keys, shape.filter.lines);
    const double variance = line_rate_variance(static_cast<double>(n_keys) / shape.filter.lines);
    const double slack = kFormulaSlack * formula + kSigmas * std::sqrt(variance / shape.filter.lines);
    const double bits = rate_of_bits(shape);
    if (std::abs(bits - formula) > slack) {
      return Error{
          fmt::format("proof failed: the filter of {} has a false-positive rate of {:.3g}; {} keys in {} lines give "
                      "{:.3g} +- {:.2g}",
                      name, bits, n_keys, shape.filter.lines, formula, slack)};
    }

    const double expected = bits * kAbsentKeys;
    const unsigned hits = hits_of_absent(kernels, shape, random);
    if (std::abs(hits - expected) > tolerance(expected)) {
      return Error{
          fmt::format("proof failed: {} of {} absent keys hit the filter of {}; its bits give {:.1f} +- {:.1f}", hits,
                      kAbsentKeys, name, expected, tolerance(expected))};
    }
  }
  return {};
}

}  // namespace weir::control
