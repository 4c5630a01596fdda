#include <vector>

#include "filter/dispatch.h"
#include "filter/layouts/line8.h"
#include "filter/sizing.h"
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

TEST_CASE("line8_lines inverts line8_fpr") {
  for (uint64_t n : {1u, 64u, 1000u, 669'714u, 100'000'000u}) {
    for (double rate : {0.1, 0.01, 0.005, 0.001, 1e-5}) {
      const uint32_t lines = line8_lines(n, rate);
      INFO(n << " keys at " << rate << ": " << lines << " lines");
      REQUIRE(line8_fpr(n, lines) <= rate);
      if (lines > 1) REQUIRE(line8_fpr(n, lines - 1) > rate);
    }
  }
  REQUIRE(line8_lines(0, 0.005) == 1);
}

TEST_CASE("measured false positives are within 5 % of the formula") {
  struct Case {
    uint64_t n_keys;
    double rate;
  };
  for (const auto& [n_keys, rate] : {Case{20'000, 0.02}, Case{200'000, 0.01}, Case{500'000, 0.005}}) {
    Random random(n_keys);
    const uint32_t lines = line8_lines(n_keys, rate);
    std::vector<uint64_t> filter(size_t{lines} * 8);
    for (uint64_t i = 0; i < n_keys; i++) {
      const uint64_t hash = random.next();
      weir_line8_mark(filter.data() + size_t{weir_hash_range(hash, lines)} * 8, hash);
    }
    const uint64_t probes = static_cast<uint64_t>(30'000 / rate);  // 30,000 hits: standard error 0.6 %
    uint64_t hits = 0;
    for (uint64_t i = 0; i < probes; i++) {
      const uint64_t hash = random.next();
      hits += weir_line8_check(filter.data() + size_t{weir_hash_range(hash, lines)} * 8, hash);
    }
    INFO(n_keys << " keys in " << lines << " lines");
    REQUIRE(static_cast<double>(hits) / static_cast<double>(probes) == Approx(line8_fpr(n_keys, lines)).epsilon(0.05));
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
