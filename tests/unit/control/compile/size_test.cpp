#include "control/compile/plan/size.h"

#include <algorithm>
#include <limits>
#include <string>

#include "control/compile/plan/gates.h"
#include "filter/build/builder.h"
#include "filter/format/gate.h"
#include "filter/layouts/layout.h"
#include "tests/catch.h"
#include "tests/unit/filter/inputs.h"

namespace weir::control {
namespace {

// A snapshot of one list and one rule with n keys of the shape, planned for real.
weir_snapshot_header planned(const SizeQuestion& question, weir_layout layout) {
  filter::SnapshotInput input;
  input.lists.push_back({"a", WEIR_DROP, WEIR_ENFORCE, question.keys});
  input.sets = {{}, {{1, 0, 0, 0}}};
  input.rules = {{}, {1, 0, 0, 0}};
  filter::KeyTable table;
  table.shape = question.shape;
  table.layout = layout;
  table.false_positive_rate = question.false_positive_rate;
  for (unsigned w = 0; w < filter::key_words(question.shape); w++) table.words[w].assign(question.keys, 0);
  table.rules.assign(question.keys, 1);
  input.tables.push_back(std::move(table));
  const auto plan = filter::plan_snapshot(input);
  if (!plan) FAIL(plan.error());
  return plan->header;
}

std::string count_error(const char* text) {
  const auto count = parse_count(text, kMostKeys);
  return count ? "" : count.error();
}

std::string rate_error(const char* text) {
  const auto rate = parse_rate(text);
  return rate ? "" : rate.error();
}

}  // namespace

TEST_CASE("sizes are those of a planned snapshot") {
  const filter::KeyShape shapes[] = {{4, 32, false}, {4, 32, true}, {6, 128, false}, {6, 128, true}};
  for (const filter::Layout& layout : filter::all_layouts()) {
    if (layout.id == WEIR_LAYOUT_BITMAP) continue;
    for (const filter::KeyShape shape : shapes) {
      for (const uint64_t keys : {1u, 255u, 256u, 257u, 12345u, 300001u}) {
        const SizeQuestion question = {keys, 0.005, shape, layout.id};
        const auto answer = size_table(question);
        REQUIRE(answer);
        const weir_snapshot_header header = planned(question, layout.id);
        const weir_shape& wanted = header.shapes[0];
        INFO(std::string(layout.name) << ", " << keys << " keys");
        CHECK(answer->keys == wanted.n_keys);
        CHECK(answer->k == wanted.k);
        CHECK(answer->filter_bytes == wanted.filter.size_bytes);
        CHECK(answer->exact_bytes == wanted.exact.size_bytes);
        CHECK(answer->gate_bytes % WEIR_PAGE_BYTES == 0);
        CHECK(answer->total_bytes == header.total_bytes + answer->gate_bytes);
        CHECK(answer->huge_pages == (answer->total_bytes + kHugePageBytes - 1) / kHugePageBytes);
        CHECK(answer->layout_why == "asked for");
        CHECK(answer->rate <= 0.005);
      }
    }
  }
}

TEST_CASE("the gate is what the planner chooses for keys that lie anywhere") {
  filter::test::Random random(4);
  for (const filter::KeyShape shape : {filter::KeyShape{4, 32, false}, filter::KeyShape{6, 128, false}}) {
    for (const size_t keys : {1000u, 200'000u}) {
      filter::SnapshotInput input = filter::test::empty_input();
      input.tables = {filter::test::random_table(shape, keys, 2, random)};
      std::fill(input.tables[0].rules.begin(), input.tables[0].rules.end(), 1);  // of one side
      choose_gates(input, std::numeric_limits<double>::infinity());
      const auto& tables = input.gates[weir_gate_number(shape.family, WEIR_SIDE_SOURCE)].tables;
      REQUIRE(tables.size() == 1);
      const auto answer = size_table({keys, 0.005, shape, {}});
      REQUIRE(answer);
      CHECK(answer->gate_bytes == weir_gate_table_words(tables[0].prefix_bits, tables[0].n_words) * 8);
    }
  }
}

TEST_CASE("the layout is the planner's when none is asked for") {
  const auto answer = [](double rate) { return *size_table({1000, rate, {4, 32, false}, {}}); };
  CHECK(answer(0.005).layout == WEIR_LAYOUT_LINE8);
  CHECK(answer(0.005).layout_why == "0.5 % wanted");
  CHECK(answer(0.0001).layout == WEIR_LAYOUT_PAGE2);
  CHECK(answer(0.0001).layout_why == "0.01 % wanted, below 0.1 %");
  const auto impossible = size_table({1000, 0.001, {4, 32, false}, WEIR_LAYOUT_RIBBON});
  REQUIRE_FALSE(impossible);
  CHECK(impossible.error() == "ribbon cannot keep a false-positive rate of 0.001: its lowest is 0.00391");
}

TEST_CASE("eight sigma of keys in a page") {
  const SizeAnswer answer = *size_table({1'000'000, 0.005, {4, 32, false}, {}});
  const double mean = 1e6 * WEIR_PAGE_BYTES / static_cast<double>(answer.filter_bytes);
  CHECK(answer.per_page.mean == Approx(mean));
  CHECK(answer.per_page.high - mean == Approx(8 * std::sqrt(mean)));
  CHECK(mean - answer.per_page.low == Approx(8 * std::sqrt(mean)));
  CHECK(size_table({1, 0.005, {4, 32, false}, {}})->per_page.low == 0);
}

TEST_CASE("counts as people write them") {
  struct Row {
    const char* text;
    uint64_t count;
  };
  const Row rows[] = {{"1", 1},
                      {"20M", 20'000'000},
                      {"1.5k", 1500},
                      {"2e7", 20'000'000},
                      {"1_000_000", 1'000'000},
                      {"3,000", 3000},
                      {"1G", 1'000'000'000},
                      {"0.5M", 500'000},
                      {"1K", 1000},
                      {"1e3k", 1'000'000},
                      {"1.1M", 1'100'000},
                      {"1073741824", kMostKeys}};
  for (const Row& row : rows) {
    INFO(row.text);
    const auto count = parse_count(row.text, kMostKeys);
    REQUIRE(count);
    CHECK(*count == row.count);
  }
  for (const char* text : {"", "k", "M", "20Q", "20 M", "-5", "+5", "0x10", "1__0", "_1", "1_", "1,", "nan", "inf",
                           "1e", "1.2.3", "20MM", "1e999"}) {
    INFO(text);
    CHECK(count_error(text) ==
          "`" + std::string(text) + "` is not a count: write it as 20M, 1.5k, 2e7 or 1_000_000 (k, M, G: thousands)");
  }
  CHECK(count_error("1.5").find("`1.5` is not a whole number") == 0);
  CHECK(count_error("1.0005k").find("`1.0005k` is not a whole number") == 0);
  CHECK(count_error("0").find("`0` keys need no table") == 0);
  CHECK(count_error("1073741825").find("`1073741825` is more than one table can hold: at most 1073741824") == 0);
  CHECK(count_error("1e300").find("is more than one table can hold") != std::string::npos);
}

TEST_CASE("rates as people write them") {
  CHECK(*parse_rate("0.005") == 0.005);
  CHECK(*parse_rate("1e-4") == 1e-4);
  CHECK(*parse_rate("1e-9") == 1e-9);
  CHECK(*parse_rate("0.5") == 0.5);
  CHECK(rate_error("0.5%") == "`0.5%` is in percent: write 0.005");
  CHECK(rate_error("0.01 %") == "`0.01 %` is in percent: write 0.0001");
  CHECK(rate_error("%") == "`%` is in percent: write 0.005");
  for (const char* text : {"", "low", "nan", "1e-4x", "inf"}) {
    CHECK(rate_error(text) == "`" + std::string(text) + "` is not a rate: write it as 0.005 or 1e-4");
  }
  for (const char* text : {"0", "1", "0.51", "1e-10", "-0.1"}) {
    CHECK(rate_error(text) == "`" + std::string(text) + "` is not between 1e-09 and 0.5: a usual rate is 0.005");
  }
}

}  // namespace weir::control
