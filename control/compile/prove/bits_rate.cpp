#include "control/compile/prove/bits_rate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "filter/build/sizing.h"
#include "filter/layouts/layout.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"

namespace weir::control {
namespace {

constexpr double kRibbonFormulaSlack = 0.05;  // of the rate that it expects
// A ribbon of few pages: where by chance too many keys begin in neighbouring rows, all strangers that look there pass.
// Of 80,000 pages at 9 bits a key, 130 let 0.1 % more through than the formula says, 23 a tenth, one a third, none
// half; so much, in pages, is allowed. A secret that is so unlucky is worth another one anyway (compile takes it).
constexpr double kRibbonLuck = 0.5;

constexpr unsigned kPageWords = WEIR_PAGE_BYTES / 8;

using Fills = std::array<double, kLineWords>;

Fills fills_of(const filter::ShapeView& shape, uint32_t line) {
  Fills fills;
  for (unsigned w = 0; w < kLineWords; w++) fills[w] = std::popcount(filter_word(shape, line, w)) / 64.0;
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
      set += static_cast<unsigned>(std::popcount(filter_word(shape, page + w / kLineWords, w % kLineWords)));
    }
    sum += std::pow(static_cast<double>(set) / kPageBits, WEIR_PAGE7_K);
  }
  return sum / (shape.filter.lines / WEIR_LINES_PER_PAGE);
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

}  // namespace

uint64_t filter_word(const filter::ShapeView& shape, uint32_t line, unsigned word) {
  return filter::load_word(shape.filter.bits + size_t{line} * WEIR_LINE_BYTES + word * sizeof(uint64_t));
}

RateBand rate_band(const filter::ShapeView& shape, uint64_t n_keys) {
  if (shape.layout == WEIR_LAYOUT_BITMAP || n_keys == 0) return {0, 0, 0, true};
  if (const BitsRate of_bits = bits_rate(shape.layout); of_bits != nullptr) {
    const double rate = of_bits(shape);
    return {rate, rate, rate, true};
  }
  const double rate = filter::layout_fpr(shape.layout, n_keys, shape.filter.lines, shape.filter.k);
  const double slack = kRibbonFormulaSlack * rate + kRibbonLuck * WEIR_LINES_PER_PAGE / shape.filter.lines;
  return {std::max(0.0, rate - slack), rate, rate + slack, false};
}

std::vector<ShapeReport> describe_filters(const filter::SnapshotView& snapshot) {
  std::vector<ShapeReport> reports;
  for (size_t i = 0; i < snapshot.shapes().size(); i++) {
    const weir_shape& shape = snapshot.header().shapes[i];
    reports.push_back(describe(shape));
    reports.back().band = rate_band(snapshot.shapes()[i], shape.n_keys);
  }
  return reports;
}

}  // namespace weir::control
