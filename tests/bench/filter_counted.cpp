#include "tests/bench/filter_counted.h"

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "common/bits.h"
#include "filter/build/builder.h"
#include "filter/format/rules.h"
#include "filter/layouts/layout.h"
#include "filter/probe/exact.h"
#include "filter/probe/lookup.h"
#include "tests/bench/filter_lanes.h"
#include "tests/bench/filter_loops.h"
#include "tests/bench/filter_tables.h"

namespace weir::bench {
namespace {

using namespace filter;

constexpr uint64_t kFewKeys = 1000;  // how large a filter is does not change what is executed
constexpr unsigned kRing = LookupPipeline::kMaxInFlight;
constexpr unsigned kLookAhead = 2;

uint64_t run_layout(const Kernels& kernels, const std::string& kernel, const Layout& layout, unsigned batch,
                    uint64_t n_keys) {
  alignas(64) static uint64_t words[kKeyWords][kMaxBatch], hash[3][kMaxBatch];
  KeyStream stream = key_stream(1, 0, 1);
  lanes().fill_columns(stream, words[0], words[1], kMaxBatch);
  for (auto& column : hash) lanes().fill_hashes(stream, column, kMaxBatch);
  const uint64_t* const columns[] = {words[0], words[1]};
  const TestFilter filter = make_filter(layout.id, kFewKeys, kBitsPerKey);
  const FilterBits bits = filter.bits();
  const LayoutKernels& loops = kernels.layout[layout.id];
  uint64_t sum = 0;
  for (uint64_t i = 0; i < n_keys; i += batch) {
    if (kernel == "hash") {
      kernels.siphash13(kSecret, columns, kKeyWords, batch, hash[0]);
    } else if (kernel == "prefetch") {
      loops.prefetch(bits, hash[0], batch);
    } else if (kernel == "check") {
      sum += loops.check(bits, hash[0], batch);
    } else {
      Line8Step step;
      step.secret = kSecret;
      step.words = columns;
      step.n_words = kKeyWords;
      step.n_hash = step.n_fetch = step.n_test = batch;
      step.hash = hash[0];
      step.fetch_filter = step.test_filter = bits;
      step.fetch_hash = hash[1];
      step.test_hash = hash[2];
      sum += kernels.line8_step(step);
    }
  }
  return sum;
}

// By BucketType.
constexpr struct {
  const char* name;
  KeyShape shape;
} kTables[kBucketTypes] = {
    {"v4", {4, 32, false}},
    {"v4_port", {4, 32, true}},
    {"v6", {6, 128, false}},
    {"v6_port", {6, 128, true}},
    {"flow", {6, 128, false, true, 128, WEIR_FLOW_PROTOCOL | WEIR_FLOW_SPORT | WEIR_FLOW_DPORT}},
};

// A snapshot of random keys of one shape.
struct Table {
  std::vector<std::byte> memory;
  std::span<std::byte> bytes;
  SnapshotView view;
  std::array<std::vector<uint64_t>, WEIR_MAX_KEY_WORDS> members;
  KeyStream stream = key_stream(1, 0, 2);
  Key mask;

  Key random_key() {
    alignas(64) uint64_t word[16];
    lanes().fill_hashes(stream, word, 16);
    Key key;
    for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) key.word[w] = word[w] & mask.word[w];
    return key;
  }
};

Table make_table(KeyShape shape) {
  Table table;
  table.mask = key_mask(shape);
  SnapshotInput input;
  input.secret = {kSecret[0], kSecret[1]};
  input.lists = {{"bench", WEIR_DROP, WEIR_ENFORCE, kFewKeys}};
  input.sets = {{{0}}, {{1}}};
  input.rules = {{0, 0, 0, 0}, {1, 0, 0, 0}};
  KeyTable& keys = input.tables.emplace_back();
  keys.shape = shape;
  for (uint64_t i = 0; i < kFewKeys; i++) {
    const Key key = table.random_key();
    for (unsigned w = 0; w < key_words(shape); w++) keys.words[w].push_back(key.word[w]);
    keys.rules.push_back(1);
  }
  table.members = keys.words;
  const auto plan = plan_snapshot(input);
  if (!plan) give_up(plan.error());
  table.memory.resize(plan->header.total_bytes + WEIR_LINE_BYTES);
  void* aligned = table.memory.data();
  size_t room = table.memory.size();
  std::align(WEIR_LINE_BYTES, plan->header.total_bytes, aligned, room);
  table.bytes = {static_cast<std::byte*>(aligned), plan->header.total_bytes};
  if (const auto built = build_snapshot(input, *plan, table.bytes); !built) give_up(built.error());
  const auto view = SnapshotView::open(table.bytes);
  if (!view) give_up(view.error());
  table.view = *view;
  return table;
}

void fill(Batch& batch, Table& table, Lane& lane, unsigned n, bool members, uint64_t first) {
  batch.lane = &lane;
  batch.n = n;
  for (unsigned i = 0; i < n; i++) {
    const Key key = table.random_key();
    for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) {
      const auto& column = table.members[w];
      batch.word[w][i] = members && !column.empty() ? column[(first + i) % kFewKeys] : key.word[w];
    }
  }
}

uint64_t run_find(const Kernels& kernels, const ShapeView& shape, Batch& batch, uint64_t n_keys) {
  const uint64_t* words[WEIR_MAX_KEY_WORDS];
  for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) words[w] = batch.word[w];
  place_keys(kernels, shape, words, batch.n, batch.place);
  uint64_t found = 0;
  for (uint64_t i = 0; i < n_keys; i += batch.n) {
    found += static_cast<uint64_t>(
        std::popcount(exact_find_batch(kernels, shape, words, batch.place, low_bits(batch.n), batch.rule)));
  }
  return found;
}

uint64_t run_pipeline(const Kernels& kernels, std::vector<Batch>& batches, uint64_t n_keys) {
  LookupPipeline pipeline(kernels, kLookAhead);
  uint64_t found = 0, next = 0;
  for (uint64_t i = 0; i < n_keys; i += batches[0].n) {
    pipeline.push(&batches[next++ % batches.size()]);
    while (const Batch* done = pipeline.pop()) found += static_cast<uint64_t>(std::popcount(done->found));
  }
  pipeline.drain();
  return found;
}

uint64_t run_table(const Kernels& kernels, const std::string& how, KeyShape key_shape, unsigned n, uint64_t n_keys) {
  Table table = make_table(key_shape);
  ShapeView shape = table.view.shapes()[0];
  shape.prefetch = true;  // as in one that is large
  Lane lane = {.shape = &shape};
  std::vector<Batch> batches(kRing);
  for (unsigned b = 0; b < kRing; b++) fill(batches[b], table, lane, n, how != "miss", uint64_t{b} * n);
  return how == "find" ? run_find(kernels, shape, batches[0], n_keys) : run_pipeline(kernels, batches, n_keys);
}

}  // namespace

uint64_t run_counted(const Kernels& kernels, const std::string& what, unsigned batch, uint64_t n_keys) {
  const size_t slash = what.find('/');
  const std::string kernel = what.substr(0, slash), of = slash == std::string::npos ? "" : what.substr(slash + 1);
  if (kernel == "hash" || kernel == "step") {
    return run_layout(kernels, kernel, layout_of(WEIR_LAYOUT_LINE8), batch, n_keys);
  }
  if (const Layout* layout = layout_named(of); layout != nullptr && (kernel == "prefetch" || kernel == "check")) {
    return run_layout(kernels, kernel, *layout, batch, n_keys);
  }
  for (const auto& table : kTables) {
    if (of == table.name && (kernel == "find" || kernel == "miss" || kernel == "hit")) {
      return run_table(kernels, kernel, table.shape, batch, n_keys);
    }
  }
  give_up("no loop " + what);
}

}  // namespace weir::bench
