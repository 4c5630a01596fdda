#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "control/compile/plan/gates.h"
#include "control/compile/plan/plan.h"
#include "control/compile/prove/bits_rate.h"
#include "control/compile/prove/chance.h"
#include "control/compile/prove/prove.h"
#include "filter/build/sizing.h"
#include "filter/format/gate.h"
#include "filter/format/rules.h"
#include "filter/layouts/layout.h"
#include "filter/layouts/page2.h"
#include "filter/layouts/page7.h"
#include "filter/probe/exact.h"

// These proofs count how many random addresses and keys get through gates and filters.
namespace weir::control {

namespace {

constexpr unsigned kRandomAddresses = 65536;  // at each gate

// The share of random addresses that a table lets through, as its bits say.
struct ExpectedShare {
  double share;
  double beside;  // at most this share more has the leading bits of a key
};

// Words of few leading bits are only nearly even, and are not held to what their bits say.
bool is_even(const filter::GateView::Table& table) {
  constexpr unsigned kEnough = 32;
  return table.n_words == 0 || table.prefix_bits >= kEnough;
}

// table: of the gate, with these words.
ExpectedShare expect_share(const weir_snapshot_header& header, const GateReport& of, unsigned t,
                           const uint64_t* words) {
  const weir_gate_table& table = of.gate.table[t];
  if (table.n_words == 0) return {std::ldexp(static_cast<double>(table.n_set), -int{table.prefix_bits}), 0};
  double share = 0;
  for (uint32_t w = 0; w < table.n_words; w++) share += std::pow(std::popcount(words[w]) / 64.0, 3) / table.n_words;
  double keys = 0;
  const std::span tables(of.gate.table, of.gate.n_tables);
  for (const weir_shape& shape : std::span(header.shapes, header.n_shapes)) {
    if (shape.family != of.family || weir_stands_at(&shape, of.side) == 0) continue;
    const unsigned bits = filter::leading_bits(filter::shape_of(shape), of.side);
    if (filter::gate_table_of(tables, bits) != t) continue;
    const int more = std::max(0, int{table.prefix_bits} - static_cast<int>(bits));
    keys += std::ldexp(static_cast<double>(shape.n_keys), more);
  }
  return {share, std::min(1.0, std::ldexp(keys, -int{table.prefix_bits}))};
}

bool knows(const filter::GateView& gate, unsigned t, uint64_t address) {
  const filter::GateView::Table& table = gate.table[t];
  return weir_gate_knows(table.bits, table.prefix_bits, table.n_words, gate.multiplier, address) != 0;
}

}  // namespace

Result<void> prove_gates(const filter::SnapshotView& snapshot, uint64_t seed,
                         std::array<double, 2 * WEIR_GATES>& shares) {
  SplitMix random{seed};
  const auto reports = describe_gates(snapshot.header());
  for (unsigned g = 0; g < reports.size(); g++) {
    const GateReport& of = reports[g];
    const filter::GateView& gate =
        of.is_of_xdp ? snapshot.xdp_gate(of.family, of.side) : snapshot.gate(of.family, of.side);
    unsigned passed = 0, known[WEIR_MAX_GATE_TABLES] = {};
    for (unsigned i = 0; i < kRandomAddresses; i++) {
      const uint64_t address = random.next();
      passed += filter::passes_gate(gate, address);
      for (unsigned t = 0; t < gate.n_tables; t++) known[t] += knows(gate, t, address);
    }
    shares[g] = static_cast<double>(passed) / kRandomAddresses;
    for (unsigned t = 0; t < gate.n_tables; t++) {
      if (!is_even(gate.table[t])) continue;
      const ExpectedShare share = expect_share(snapshot.header(), of, t, gate.table[t].bits);
      const double expected = share.share * kRandomAddresses, beside = share.beside * kRandomAddresses;
      const double most_off = bernstein(1, expected + beside);
      if (known[t] >= expected - most_off && known[t] <= expected + beside + most_off) continue;
      return Error{
          fmt::format("proof failed: of {} random addresses {} pass table {} of the gate {}; its bits give {:.1f} "
                      "+- {:.1f}",
                      kRandomAddresses, known[t], t, of.name, expected, most_off)};
    }
  }
  return {};
}

namespace {

constexpr unsigned kAbsentKeys = 65536;  // tried per shape
// A ribbon's bits say nothing by themselves: hits are all there is, and so many of them tell 10 % apart.
constexpr unsigned kAbsentKeysOfRibbon = 16 * kAbsentKeys;

constexpr double kFormulaSlack = 0.005;  // of the bits that the formula expects

uint64_t set_bits(const filter::ShapeView& shape) {
  uint64_t set = 0;
  for (uint32_t line = 0; line < shape.filter.lines; line++) {
    for (unsigned w = 0; w < kLineWords; w++) set += static_cast<unsigned>(std::popcount(filter_word(shape, line, w)));
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

Result<ProvedRate> prove_rate(const filter::ShapeView& shape, uint64_t n_keys, const filter::Kernels& kernels,
                              SplitMix& random) {
  const RateBand rate = rate_band(shape, n_keys);
  if (rate.of_bits) {
    if (auto ok = prove_bits(shape, n_keys, rate.rate); !ok) return Error{ok.error()};
  }
  const unsigned tried = rate.of_bits ? kAbsentKeys : kAbsentKeysOfRibbon;
  const double slack = (rate.high - rate.rate) * tried, expected = rate.rate * tried;
  const double most_off = slack + bernstein(1, expected + slack);
  const unsigned hits = hits_of_absent(kernels, shape, tried, random);
  if (std::abs(hits - expected) <= most_off) return ProvedRate{static_cast<double>(hits) / tried, rate};
  return Error{fmt::format("proof failed: {} of {} absent keys hit the filter of {}; its {} give {:.1f} +- {:.1f}",
                           hits, tried, shape_name(shape.shape, false), rate.of_bits ? "bits" : "keys", expected,
                           most_off)};
}

}  // namespace

Result<std::vector<std::optional<ProvedRate>>> prove_rates(const filter::SnapshotView& snapshot,
                                                           const filter::Kernels& kernels, uint64_t seed) {
  SplitMix random{seed};
  std::vector<std::optional<ProvedRate>> rates(snapshot.shapes().size());
  for (size_t i = 0; i < snapshot.shapes().size(); i++) {
    const filter::ShapeView& shape = snapshot.shapes()[i];
    const weir_shape& described = snapshot.header().shapes[i];
    if (shape.layout == WEIR_LAYOUT_BITMAP || described.n_keys == 0) continue;
    const Result<ProvedRate> rate = prove_rate(shape, described.n_keys, kernels, random);
    if (!rate) return Error{rate.error()};
    rates[i] = *rate;
  }
  return rates;
}

}  // namespace weir::control
