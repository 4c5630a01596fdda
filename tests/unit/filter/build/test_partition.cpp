#include "filter/build/partition.h"
#include "filter/format/siphash.h"
#include "filter/layouts/layout.h"
#include "filter/probe/dispatch.h"
#include "tests/rounds.h"
#include "tests/unit/filter/support.h"

using namespace weir::filter;
using namespace weir::filter::test;

namespace {

constexpr PartitionLimits kAsTheyCome = {.min_out_bytes = UINT64_MAX};

// All ways to write a table: as keys come; with one place in a partition and many, in one round and many.
const std::vector<PartitionLimits> kWays = {
    kAsTheyCome,
    {.min_out_bytes = 0, .partition_bytes = 1, .scratch_share = 10},
    {.min_out_bytes = 0, .partition_bytes = 3 * WEIR_PAGE_BYTES, .scratch_share = 10},
    {.min_out_bytes = 0, .partition_bytes = 2 * WEIR_PAGE_BYTES, .scratch_share = 0.05},
    {.min_out_bytes = 0, .partition_bytes = uint64_t{1} << 40, .scratch_share = 10},
};

weir::Result<void> build_with(const SnapshotInput& input, Buffer& out, unsigned threads,
                              const PartitionLimits& limits) {
  return build_snapshot(input, *plan_snapshot(input), out.bytes(), threads, limits);
}

// The snapshot as one thread writes it that takes keys as they come, and as all others do.
void require_equal_ways(const SnapshotInput& input, std::initializer_list<unsigned> thread_counts) {
  const auto plan = plan_snapshot(input);
  REQUIRE(plan);
  Buffer expected(plan->header.total_bytes);
  REQUIRE(build_with(input, expected, 1, kAsTheyCome));
  for (unsigned threads : thread_counts) {
    for (const PartitionLimits& limits : kWays) {
      Buffer out(plan->header.total_bytes);
      REQUIRE(build_with(input, out, threads, limits));
      INFO(threads << " threads, partitions of " << limits.partition_bytes << " bytes, share " << limits.scratch_share);
      REQUIRE(std::equal(out.bytes().begin(), out.bytes().end(), expected.bytes().begin()));
    }
  }
}

std::string error_of(const SnapshotInput& input, unsigned threads, const PartitionLimits& limits) {
  Buffer out(plan_snapshot(input)->header.total_bytes);
  const auto built = build_with(input, out, threads, limits);
  return built ? "none" : built.error();
}

KeyColumns view_of(const std::vector<uint64_t>& words) {
  KeyColumns columns = {.n_words = 1, .n = words.size()};
  columns.words[0] = words.data();
  return columns;
}

}  // namespace

TEST_CASE("tables of every shape and layout are the same bytes, written in parts or as keys come") {
  for (weir_layout layout : {WEIR_LAYOUT_LINE8, WEIR_LAYOUT_PAGE2, WEIR_LAYOUT_PAGE7, WEIR_LAYOUT_RIBBON}) {
    for (size_t n : {size_t{1}, size_t{700}, static_cast<size_t>(rounds(9000))}) {
      for (SnapshotInput input : {full_input(n, 60 + n), flow_input(n, 61 + n)}) {
        for (KeyTable& table : input.tables) table.layout = layout;
        INFO("layout " << int{layout} << ", " << n << " keys");
        require_equal_ways(input, {1});
      }
    }
  }
}

TEST_CASE("tables written in parts by several threads are the bytes that one writes") {
  SnapshotInput input = empty_input();
  Random random(62);
  input.tables.push_back(random_table({6, 128, false}, 310'000, 4, random));
  for (weir_layout layout : {WEIR_LAYOUT_LINE8, WEIR_LAYOUT_PAGE2}) {
    input.tables[0].layout = layout;
    require_equal_ways(input, {1, 2, 3});
  }
}

TEST_CASE("a filter alone is the same, written in parts or as keys come") {
  const Kernels& kernels = **choose_kernels();
  const uint64_t secret[2] = {63, 64};
  std::vector<uint64_t> keys(230'000);
  for (size_t i = 0; i < keys.size(); i++) keys[i] = i;
  for (const Layout& layout : all_layouts()) {
    if (layout.mark == nullptr) continue;
    const uint32_t lines = 5440 / layout.unit_lines * layout.unit_lines;
    Buffer expected(size_t{lines} * WEIR_LINE_BYTES);
    const auto words = [&](Buffer& buffer) {
      return FilterWords{reinterpret_cast<uint64_t*>(buffer.bytes().data()), lines, layout.min_k};
    };
    build_filter(kernels, secret, view_of(keys), layout.id, words(expected), 1, kAsTheyCome);
    REQUIRE(
        std::any_of(expected.bytes().begin(), expected.bytes().end(), [](std::byte b) { return b != std::byte{0}; }));
    for (unsigned threads : {1u, 2u}) {
      for (const PartitionLimits& limits : kWays) {
        Buffer out(expected.bytes().size());
        build_filter(kernels, secret, view_of(keys), layout.id, words(out), threads, limits);
        INFO(std::string(layout.name) << ", " << threads << " threads, partitions of " << limits.partition_bytes);
        REQUIRE(std::equal(out.bytes().begin(), out.bytes().end(), expected.bytes().begin()));
      }
    }
  }
}

TEST_CASE("keys that are not spread as hashes are find no room, and are written as they come") {
  const Kernels& kernels = **choose_kernels();
  const uint64_t secret[2] = {65, 66};
  std::vector<uint64_t> keys(20'000, 7);  // one key, 19,000 times
  for (size_t i = 0; i < 1000; i++) keys[20 * i] = i;
  constexpr uint32_t kLines = 600;
  const KeyColumns columns = view_of(keys);
  const PartitionTask task = {
      .kernels = kernels, .secret = secret, .keys = columns, .places = kLines, .out_bytes = kLines * WEIR_LINE_BYTES};
  const PartitionLimits limits = {.min_out_bytes = 0, .partition_bytes = WEIR_PAGE_BYTES, .scratch_share = 0.1};
  const auto plan = plan_partitions(task, limits, 1);
  REQUIRE(plan);
  REQUIRE(plan->rounds() > 1);
  auto partitions = Partitions::make(*plan);
  REQUIRE(partitions);
  unsigned refused = 0;
  for (uint32_t round = 0; round < plan->rounds(); round++) refused += !partitions->take(task, round);
  REQUIRE(refused == 1);  // the round of that key

  Buffer expected(kLines * WEIR_LINE_BYTES), out(kLines * WEIR_LINE_BYTES);
  const auto words = [](Buffer& buffer) {
    return FilterWords{reinterpret_cast<uint64_t*>(buffer.bytes().data()), kLines, 8};
  };
  build_filter(kernels, secret, columns, WEIR_LAYOUT_LINE8, words(expected), 1, kAsTheyCome);
  build_filter(kernels, secret, columns, WEIR_LAYOUT_LINE8, words(out), 1, limits);
  REQUIRE(std::equal(out.bytes().begin(), out.bytes().end(), expected.bytes().begin()));
}

TEST_CASE("partitions hold every key once, in order, in the partition of its hash") {
  const Kernels& kernels = **choose_kernels();
  const uint64_t secret[2] = {67, 68};
  std::vector<uint64_t> keys(50'001);
  std::vector<uint32_t> rules(keys.size());
  for (size_t i = 0; i < keys.size(); i++) {
    keys[i] = i * i;
    rules[i] = static_cast<uint32_t>(i) + 1;
  }
  const KeyColumns columns = view_of(keys);
  const PartitionTask task = {.kernels = kernels,
                              .secret = secret,
                              .keys = columns,
                              .rules = rules.data(),
                              .places = 1001,
                              .out_bytes = 1001 * WEIR_PAGE_BYTES};
  const PartitionLimits limits = {.min_out_bytes = 0, .partition_bytes = 5 * WEIR_PAGE_BYTES, .scratch_share = 0.05};
  const auto plan = plan_partitions(task, limits, 3);
  REQUIRE(plan);
  REQUIRE(plan->partitions == 251);
  REQUIRE(plan->rounds() > 2);
  auto partitions = Partitions::make(*plan);
  REQUIRE(partitions);
  size_t n = 0;
  for (uint32_t round = 0; round < plan->rounds(); round++) {
    REQUIRE(partitions->take(task, round));
    for (uint32_t p = round * plan->per_round; p < plan->end_of(round); p++) {
      uint64_t next = 0;
      for (unsigned t = 0; t < 3; t++) {
        const auto records = partitions->records(p, t);
        for (size_t r = 0; r < records.size(); r += 2, n++) {
          const uint64_t index = records[r + 1] >> 32;
          REQUIRE(index >= next);
          next = index + 1;
          REQUIRE(records[r] == keys[index]);
          REQUIRE(static_cast<uint32_t>(records[r + 1]) == rules[index]);
          const uint64_t hash = weir_siphash13(secret, &keys[index], 1);
          REQUIRE(plan->partition_of(hash) == p);
          REQUIRE(plan->hashes_of(p, p + 1).holds(hash));
        }
      }
    }
  }
  REQUIRE(n == keys.size());
}

TEST_CASE("partitions keep to their share of memory, but for what chance needs") {
  KeyColumns keys = {.n_words = 2, .n = 0};
  const uint32_t rule = 1;
  const uint64_t secret[2] = {};
  for (uint64_t n : {300'000u, 1'000'000u, 10'000'000u, 100'000'000u}) {
    keys.n = n;
    const uint32_t places = static_cast<uint32_t>(n / 100);
    for (const uint32_t* rules : {static_cast<const uint32_t*>(nullptr), &rule}) {
      const PartitionTask task = {.kernels = **choose_kernels(),
                                  .secret = secret,
                                  .keys = keys,
                                  .rules = rules,
                                  .places = places,
                                  .out_bytes = uint64_t{places} * WEIR_PAGE_BYTES};
      const auto plan = plan_partitions(task, {}, 2);
      REQUIRE(plan);
      const double share = 0.25 * static_cast<double>(task.out_bytes + n * (rules == nullptr ? 16 : 20));
      REQUIRE(static_cast<double>(plan->words() * sizeof(uint64_t)) < 1.35 * share);
    }
  }
  // A table that is one partition has room for its keys, not for more.
  keys.n = 10'000;
  const PartitionTask small = {
      .kernels = **choose_kernels(), .secret = secret, .keys = keys, .places = 3, .out_bytes = 3 * WEIR_PAGE_BYTES};
  const auto whole = plan_partitions(small, {.min_out_bytes = 0, .partition_bytes = uint64_t{1} << 40}, 1);
  REQUIRE(whole);
  REQUIRE(whole->partitions == 1);
  REQUIRE(whole->words() < 11'000);
  keys.n = 0;
  const PartitionTask nothing = {
      .kernels = **choose_kernels(), .secret = secret, .keys = keys, .places = 64, .out_bytes = uint64_t{1} << 30};
  REQUIRE_FALSE(plan_partitions(nothing, {}, 1));
}

TEST_CASE("errors of a table are the same, written in parts or as keys come") {
  SnapshotInput twice = empty_input();
  Random random(69);
  twice.tables.push_back(random_table({6, 128, true}, 230'000, 4, random));
  for (auto& column : twice.tables[0].words) {
    if (!column.empty()) column[200'001] = column[17];
  }
  for (unsigned threads : {1u, 2u}) {
    REQUIRE(error_of(twice, threads, kAsTheyCome) == "build: key 200001 of a shape is there twice");
    for (const PartitionLimits& limits : kWays) {
      REQUIRE(error_of(twice, threads, limits) == "build: key 200001 of a shape is there twice");
    }
  }
}
