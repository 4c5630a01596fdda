#include "tests/bench/filter_tables.h"

#include <algorithm>
#include <cmath>

#include "filter/build/ribbon.h"
#include "filter/build/sizing.h"
#include "filter/layouts/layout.h"
#include "tests/bench/filter_lanes.h"
#include "tests/bench/standard.h"

namespace weir::bench {

using namespace filter;

KeyColumns Columns::view() const {
  return {.words = {words[0].data(), words[1].data()}, .n_words = kKeyWords, .n = words[0].size()};
}

namespace {

void fill(std::vector<uint64_t>& w0, std::vector<uint64_t>& w1, uint64_t n_keys) {
  w0.resize(n_keys);
  w1.resize(n_keys);
  for (uint64_t i = 0; i < n_keys; i += kFillUnit) {
    uint64_t a[kFillUnit], b[kFillUnit];
    lanes().fill_members(i, a, b, kFillUnit);
    const uint64_t n = std::min<uint64_t>(kFillUnit, n_keys - i);
    std::copy_n(a, n, w0.begin() + static_cast<ptrdiff_t>(i));
    std::copy_n(b, n, w1.begin() + static_cast<ptrdiff_t>(i));
  }
}

// Bucketing is a counting sort by page, then every page is solved for its keys.
void solve_pages(const Kernels& kernels, const TestFilter& filter, const uint64_t secret[2], const KeyColumns& keys) {
  const uint32_t pages = filter.size.lines / WEIR_LINES_PER_PAGE;
  std::vector<uint64_t> hashes(keys.n), sorted(keys.n);
  std::vector<uint32_t> begin(pages + 2, 0);
  for (size_t i = 0; i < keys.n; i += kMaxBatch) {
    const uint64_t* words[] = {keys.words[0] + i, keys.words[1] + i};
    const auto n = static_cast<unsigned>(std::min<size_t>(kMaxBatch, keys.n - i));
    kernels.siphash13(secret, words, kKeyWords, n, hashes.data() + i);
  }
  const auto page_of = [&](uint64_t hash) { return static_cast<uint32_t>((hash >> 32) * pages >> 32); };
  for (uint64_t hash : hashes) begin[page_of(hash) + 2]++;
  for (uint32_t p = 2; p < pages + 2; p++) begin[p] += begin[p - 1];
  for (uint64_t hash : hashes) sorted[begin[page_of(hash) + 1]++] = hash;
  for (uint32_t p = 0; p < pages; p++) {
    solve_ribbon_page({sorted.data() + begin[p], sorted.data() + begin[p + 1]}, pages, secret[0] ^ p,
                      filter.memory.as<uint64_t>() + size_t{p} * (WEIR_PAGE_BYTES / 8));
  }
}

void mark_standard(const Kernels& kernels, const TestFilter& filter, const uint64_t secret[2], const KeyColumns& keys) {
  for (size_t i = 0; i < keys.n; i += kMaxBatch) {
    const uint64_t* words[] = {keys.words[0] + i, keys.words[1] + i};
    const auto n = static_cast<unsigned>(std::min<size_t>(kMaxBatch, keys.n - i));
    uint64_t hash[kMaxBatch];
    kernels.siphash13(secret, words, kKeyWords, n, hash);
    loops_of(kernels, kStandard).mark(filter.words(), hash, n);
  }
}

}  // namespace

Columns member_columns(uint64_t n_keys) {
  Columns columns;
  fill(columns.words[0], columns.words[1], n_keys);
  return columns;
}

FilterSize filter_size(weir_layout layout, uint64_t n_keys, double bits_per_key) {
  const Layout& properties = layout_of(layout);
  const double unit_bits = properties.unit_lines * WEIR_LINE_BYTES * 8.0;
  const double units = std::max(1.0, std::round(static_cast<double>(n_keys) * bits_per_key / unit_bits));
  FilterSize best = {static_cast<uint32_t>(units) * properties.unit_lines, properties.min_k};
  double best_rate = 2;
  for (unsigned k = properties.min_k; k <= properties.max_k; k += properties.step_k) {
    const double rate = layout_fpr(layout, n_keys, best.lines, k);
    if (rate >= best_rate) continue;
    best_rate = rate;
    best.k = static_cast<uint8_t>(k);
  }
  return best;
}

double TestFilter::fpr() const {
  return layout_fpr(layout, n_keys, size.lines, size.k);
}

TestFilter make_filter(weir_layout layout, uint64_t n_keys, double bits_per_key) {
  TestFilter filter = {
      .layout = layout, .n_keys = n_keys, .size = filter_size(layout, n_keys, bits_per_key), .memory = {}};
  filter.memory = BigMemory(size_t{filter.size.lines} * WEIR_LINE_BYTES);
  return filter;
}

void mark_members(const Kernels& kernels, const TestFilter& filter, const uint64_t secret[2], const KeyColumns& keys,
                  unsigned threads) {
  if (filter.layout == WEIR_LAYOUT_RIBBON) return solve_pages(kernels, filter, secret, keys);
  if (filter.layout == kStandard) return mark_standard(kernels, filter, secret, keys);
  build_filter(kernels, secret, keys, filter.layout, filter.words(), threads);
}

void TestSnapshot::drop_input() {
  for (auto& words : input.tables[0].words) std::vector<uint64_t>().swap(words);
  std::vector<uint32_t>().swap(input.tables[0].rules);
}

TestSnapshot plan_members(uint64_t n_keys, weir_layout layout, double bits_per_key) {
  TestSnapshot snapshot;
  SnapshotInput& input = snapshot.input;
  input.secret = {kSecret[0], kSecret[1]};
  input.lists = {{"bench", WEIR_DROP, WEIR_ENFORCE, n_keys}};
  input.sets = {{{0}}, {{1}}};
  input.rules = {{0, 0, 0, 0}, {1, 0, 0, 0}, {1, 1, 0, 0}};
  KeyTable& table = input.tables.emplace_back();
  table.shape = kKeyShape;
  table.layout = layout;
  // The planner is asked for the rate that leaves the wanted size.
  const FilterSize size = filter_size(layout, n_keys, bits_per_key);
  table.false_positive_rate = std::min(0.99, layout_fpr(layout, n_keys, size.lines, size.k));
  fill(table.words[0], table.words[1], n_keys);
  table.rules.resize(n_keys);
  for (uint64_t i = 0; i < n_keys; i++) table.rules[i] = 1 + (i & 1);

  const auto plan = plan_snapshot(input);
  if (!plan) give_up(plan.error());
  snapshot.plan = *plan;
  snapshot.memory = BigMemory(plan->header.total_bytes);
  return snapshot;
}

void build_members(TestSnapshot& snapshot, unsigned threads) {
  const auto built = build_snapshot(snapshot.input, snapshot.plan, snapshot.bytes(), threads);
  if (!built) give_up(built.error());
}

void open_view(TestSnapshot& snapshot) {
  const auto view = SnapshotView::open(snapshot.bytes());
  if (!view) give_up(view.error());
  snapshot.view = *view;
}

}  // namespace weir::bench
