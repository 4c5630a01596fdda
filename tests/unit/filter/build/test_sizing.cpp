#include <algorithm>
#include <cmath>
#include <vector>

#include "filter/build/ribbon.h"
#include "filter/build/sizing.h"
#include "filter/format/hash.h"
#include "filter/layouts/layout.h"
#include "filter/probe/dispatch.h"
#include "tests/bench/standard.h"
#include "tests/rounds.h"
#include "tests/unit/filter/support.h"

using namespace weir::filter;
using test::Random;

TEST_CASE("line8_fpr gives the measured table") {
  // FPR measured with 2M keys and 16M strangers, by bits a key; the formula is within 1 %.
  const std::pair<double, double> kMeasured[] = {
      {8, 0.02927}, {10, 0.01045}, {12, 0.00420}, {16, 0.000907}, {20, 0.000260}};
  for (const auto& [bits, rate] : kMeasured) {
    const uint64_t n = 2'000'000;
    CHECK(line8_fpr(n, static_cast<uint32_t>(static_cast<double>(n) * bits / 512)) == Approx(rate).epsilon(0.01));
  }
  CHECK(line8_fpr(0, 1) == 0);
  // One key in a million lines: the stranger must meet its line and all eight bits, 2^-20 * 2^-48.
  CHECK(line8_fpr(1, 1 << 20) * 0x1p68 == Approx(1).epsilon(0.001));
  CHECK(line8_fpr(uint64_t{1} << 40, 1) == 1);
}

TEST_CASE("page2, page7, ribbon and standard give the measured table") {
  // Measured as above, or with 2M keys and 64M strangers where the bits are this project's own.
  struct Row {
    weir_layout layout;
    double bits;
    unsigned k;
    double rate, epsilon;
  };
  const Row kMeasured[] = {
      {WEIR_LAYOUT_PAGE7, 8, 7, 0.0230, 0.01},        {WEIR_LAYOUT_PAGE7, 12, 7, 0.00332, 0.01},
      {WEIR_LAYOUT_PAGE7, 20, 7, 0.000193, 0.03},     {weir::bench::kStandard, 8, 6, 0.02159, 0.01},
      {weir::bench::kStandard, 12, 8, 0.00315, 0.01}, {weir::bench::kStandard, 16, 11, 0.000456, 0.02},
      {WEIR_LAYOUT_PAGE2, 12, 8, 0.003395, 0.01},     {WEIR_LAYOUT_PAGE2, 16, 10, 0.000551, 0.02},
      {WEIR_LAYOUT_PAGE2, 20, 12, 0.0000959, 0.03},   {WEIR_LAYOUT_RIBBON, 9, 8, 0.00397, 0.025},
      {WEIR_LAYOUT_RIBBON, 9.5, 8, 0.00391, 0.01},    {WEIR_LAYOUT_RIBBON, 12, 8, 0.00391, 0.001},
  };
  for (const Row& row : kMeasured) {
    const uint64_t n = 2'000'000;
    const uint32_t unit = weir::bench::layout_of(row.layout).unit_lines;
    const auto lines = static_cast<uint32_t>(std::ceil(static_cast<double>(n) * row.bits / 512 / unit)) * unit;
    INFO(std::string(weir::bench::layout_of(row.layout).name) << ", " << row.bits << " bits a key, k " << row.k);
    CHECK(weir::bench::layout_fpr(row.layout, n, lines, row.k) == Approx(row.rate).epsilon(row.epsilon));
  }
}

TEST_CASE("size_filter inverts layout_fpr") {
  for (const Layout& layout : all_layouts()) {
    if (layout.id == WEIR_LAYOUT_BITMAP) continue;
    for (uint64_t n : {1u, 64u, 1000u, 669'714u, 100'000'000u}) {
      for (double rate : {0.1, 0.01, 0.005, 0.001, 1e-5}) {
        const auto size = size_filter(layout.id, n, rate);
        if (layout.id == WEIR_LAYOUT_RIBBON && rate < 0x1p-8) {
          REQUIRE_FALSE(size);
          continue;
        }
        REQUIRE(size);
        INFO(std::string(layout.name) << ", " << n << " keys at " << rate << ": " << size->lines << " lines, k "
                                      << +size->k);
        REQUIRE(size->lines % layout.unit_lines == 0);
        const double kept = layout.id == WEIR_LAYOUT_RIBBON ? std::min(rate, kFullestRibbonRate) : rate;
        REQUIRE(layout_fpr(layout.id, n, size->lines, size->k) <= kept);
        // A ribbon is sized by whole keys a page, one in 3500.
        const uint32_t smaller = layout.id == WEIR_LAYOUT_RIBBON ? size->lines / 64 / 1000 * 999 * 64 : size->lines;
        if (smaller > layout.unit_lines) {
          REQUIRE(layout_fpr(layout.id, n, smaller - layout.unit_lines, size->k) > kept);
        }
      }
    }
  }
  REQUIRE(size_filter(WEIR_LAYOUT_LINE8, 0, 0.005)->lines == 1);
  REQUIRE_FALSE(size_filter(WEIR_LAYOUT_LINE8, uint64_t{1} << 50, 0.005));
}

namespace {

// Of a filter with so many random keys.
void measure_rate(const Layout& layout, FilterSize size, uint64_t n_keys) {
  const double expected = weir::bench::layout_fpr(layout.id, n_keys, size.lines, size.k);
  Random random(n_keys);
  std::vector<uint64_t> filter(size_t{size.lines} * 8), keys;
  const FilterWords words = {filter.data(), size.lines, size.k};
  for (uint64_t i = 0; i < n_keys; i++) keys.push_back(random.next());
  if (layout.mark != nullptr) {
    for (const uint64_t hash : keys) layout.mark(words, hash);
  } else {
    const uint32_t pages = size.lines / WEIR_LINES_PER_PAGE;
    std::vector<std::vector<uint64_t>> of_page(pages);
    for (const uint64_t hash : keys) of_page[weir_hash_range(hash, pages)].push_back(hash);
    for (uint32_t p = 0; p < pages; p++) solve_ribbon_page(of_page[p], pages, p, filter.data() + size_t{p} * 512);
  }
  const FilterBits bits = {reinterpret_cast<const uint8_t*>(filter.data()), size.lines, size.k};
  const auto probes =
      static_cast<uint64_t>(rounds(30'000) / expected);  // 30,000 hits: standard error 0.6 %; 7,500: 1.2 %
  uint64_t hits = 0;
  for (uint64_t i = 0; i < probes; i++) hits += layout.check(bits, random.next());
  for (const uint64_t hash : keys) REQUIRE(layout.check(bits, hash));
  INFO(std::string(layout.name) << ", " << expected << " expected: " << size.lines << " lines, k " << +size.k);
  REQUIRE(static_cast<double>(hits) / static_cast<double>(probes) == Approx(expected).epsilon(0.05));
}

}  // namespace

TEST_CASE("measured false positives of every layout are within 5 % of the formula") {
  constexpr uint64_t kKeys = 200'000;
  for (const Layout& layout : all_layouts()) {
    if (layout.id == WEIR_LAYOUT_BITMAP) continue;
    for (double rate : {0.02, 0.004}) measure_rate(layout, *size_filter(layout.id, kKeys, rate), kKeys);
  }
  const Layout& standard = weir::bench::layout_of(weir::bench::kStandard);
  for (FilterSize size : {FilterSize{kKeys * 8 / 512, 6}, FilterSize{kKeys * 12 / 512, 8}}) {
    measure_rate(standard, size, kKeys);
  }
}

TEST_CASE("exact_buckets leaves room in every page") {
  for (unsigned slots : {WEIR_SLOTS_V4, WEIR_SLOTS_V4_PORT, WEIR_SLOTS_V6, WEIR_SLOTS_V6_PORT}) {
    uint32_t previous = 0;
    for (uint64_t n : {0u, 1u, 64u, 80u, 400u, 1000u, 10'000u, 1'000'000u, 100'000'000u}) {
      const uint32_t buckets = exact_buckets(n, slots);
      INFO(n << " keys, " << slots << " slots: " << buckets << " buckets");
      REQUIRE(buckets > 0);
      REQUIRE(buckets % WEIR_LINES_PER_PAGE == 0);
      REQUIRE(buckets >= previous);
      const double load = static_cast<double>(n) / buckets / slots;
      REQUIRE(load <= 0.7);
      if (n >= 10'000) REQUIRE(load > 0.4);  // and does not waste it
      previous = buckets;

      // The page that gets most keys stays below its capacity, here with 2^16 pages' worth of luck.
      if (n == 1'000'000) {
        Random random(slots);
        std::vector<uint32_t> keys_in_page(buckets / WEIR_LINES_PER_PAGE);
        for (uint64_t i = 0; i < n; i++) {
          keys_in_page[weir_hash_range(random.next(), buckets) / WEIR_LINES_PER_PAGE]++;
        }
        REQUIRE(*std::max_element(keys_in_page.begin(), keys_in_page.end()) < WEIR_LINES_PER_PAGE * slots);
      }
    }
  }
}
