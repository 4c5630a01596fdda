#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "control/compile/plan/plan.h"
#include "control/compile/prove/chance.h"
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
// A ribbon's bits say nothing by themselves: hits are all there is, and so many of them tell 10 % apart.
constexpr unsigned kAbsentKeysOfRibbon = 16 * kAbsentKeys;

constexpr double kFormulaSlack = 0.005;       // of the bits that the formula expects
constexpr double kRibbonFormulaSlack = 0.05;  // of the rate that it expects
// A ribbon of few pages: where by chance too many keys begin in neighbouring rows, all strangers that look there pass.
// Of 80,000 pages at 9 bits a key, 130 let 0.1 % more through than the formula says, 23 a tenth, one a third, none
// half; so much, in pages, is allowed. A secret that is so unlucky is worth another one anyway (compile takes it).
constexpr double kRibbonLuck = 0.5;

constexpr unsigned kLineWords = 8, kPageWords = WEIR_PAGE_BYTES / 8, kPageBits = WEIR_PAGE_BYTES * 8;

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

uint64_t set_bits(const filter::ShapeView& shape) {
  uint64_t set = 0;
  for (uint32_t line = 0; line < shape.filter.lines; line++) {
    for (unsigned w = 0; w < kLineWords; w++) set += static_cast<unsigned>(std::popcount(word_of(shape, line, w)));
  }
  return set;
}

// --- What there should be ----------------------------------------------------------------------------------------

struct Expected {
  double mean;
  double slack;
};

// The bits that n_keys keys set. Keys are placed independently of each other, whatever the layout: a given bit is one
// of a key's with the same probability p everywhere, and stays clear when it is no key's.
//
// The band makes nothing of how keys share lines and pages, so it holds for one key as for a billion. Key after key,
// the number of bits that will be set in the end is a martingale: key i moves it by at most k, and as far as its bits
// are new and no later key's. Where so much is clear as on the average, (1-p)^i, that is a variance of at most k^2
// (1-p)^i (1 - (1-p)^i) (1-p)^2(n-i); over all keys k times the variance of single bits thrown at random. Freedman's
// inequality ("On tail probabilities for martingales", 1975) makes the tail of it, Bernstein's for martingales.
Expected expected_bits(const filter::ShapeView& shape, uint64_t n_keys) {
  constexpr double kFillVaries = 1.25;  // what is clear on the way is not just the average
  const double all = 8.0 * WEIR_LINE_BYTES * shape.filter.lines;
  const bool page7 = shape.layout == WEIR_LAYOUT_PAGE7;  // a key's bits may fall on each other
  const double k = page7 ? WEIR_PAGE7_K : shape.filter.k;
  const double of_a_key = page7 ? (1 - std::pow(1 - 1.0 / kPageBits, k)) * kPageBits : k;
  const double load = -static_cast<double>(n_keys) * std::log1p(-of_a_key / all);
  const double clear = std::exp(-load);
  const double variance = kFillVaries * k * all * std::max(0.0, clear - (1 + load) * clear * clear);
  const double mean = -all * std::expm1(-load);
  return {mean, kFormulaSlack * mean + bernstein(k, variance)};
}

Expected expected_rate_of_ribbon(const filter::ShapeView& shape, uint64_t n_keys) {
  const double rate = filter::layout_fpr(shape.layout, n_keys, shape.filter.lines, shape.filter.k);
  return {rate, kRibbonFormulaSlack * rate + kRibbonLuck * WEIR_LINES_PER_PAGE / shape.filter.lines};
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

Result<void> prove_bits(const filter::ShapeView& shape, uint64_t n_keys, double rate) {
  const uint64_t set = set_bits(shape);
  const Expected expected = expected_bits(shape, n_keys);
  if (std::abs(static_cast<double>(set) - expected.mean) <= expected.slack) return {};
  return Error{fmt::format(
      "proof failed: the filter of {} has {} bits set, a false-positive rate of {:.3g}; {} keys in {} lines "
      "({}) set {:.0f} +- {:.0f}",
      shape_name(shape.shape, false), set, rate, n_keys, shape.filter.lines, filter::layout_of(shape.layout).name,
      expected.mean, expected.slack)};
}

// The share of absent keys that hit.
Result<double> prove_rate(const filter::ShapeView& shape, uint64_t n_keys, const filter::Kernels& kernels,
                          SplitMix& random) {
  Expected rate = {};
  const BitsRate rate_of_bits = bits_rate(shape.layout);
  if (rate_of_bits != nullptr) {
    rate.mean = rate_of_bits(shape);
    if (auto ok = prove_bits(shape, n_keys, rate.mean); !ok) return Error{ok.error()};
  } else {
    rate = expected_rate_of_ribbon(shape, n_keys);
  }
  const unsigned tried = rate_of_bits != nullptr ? kAbsentKeys : kAbsentKeysOfRibbon;
  const double expected = rate.mean * tried;
  const double most_off = rate.slack * tried + bernstein(1, expected + rate.slack * tried);
  const unsigned hits = hits_of_absent(kernels, shape, tried, random);
  if (std::abs(hits - expected) <= most_off) return static_cast<double>(hits) / tried;
  return Error{fmt::format("proof failed: {} of {} absent keys hit the filter of {}; its {} give {:.1f} +- {:.1f}",
                           hits, tried, shape_name(shape.shape, false), rate_of_bits != nullptr ? "bits" : "keys",
                           expected, most_off)};
}

}  // namespace

Result<std::vector<std::optional<double>>> prove_rates(const filter::SnapshotView& snapshot,
                                                       const filter::Kernels& kernels, uint64_t seed) {
  SplitMix random{seed};
  std::vector<std::optional<double>> rates(snapshot.shapes().size());
  for (size_t i = 0; i < snapshot.shapes().size(); i++) {
    const filter::ShapeView& shape = snapshot.shapes()[i];
    const weir_shape& described = snapshot.header().shapes[i];
    if (shape.layout == WEIR_LAYOUT_BITMAP || described.n_keys == 0) continue;
    const Result<double> rate = prove_rate(shape, described.n_keys, kernels, random);
    if (!rate) return Error{rate.error()};
    rates[i] = *rate;
  }
  return rates;
}

}  // namespace weir::control
