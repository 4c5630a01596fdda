// What one key costs: filter, exact stage, both; by key shape, number of keys, kernel set and hit ratio.
//
//   bench_filter --benchmark_filter='check/v4' --benchmark_repetitions=5
//
// Time per key is the counter per_key (CPU time; seconds in JSON). Calls are synchronous batches of 64 (a batch's lines
// are prefetched, then tested). Probe keys come from an array that is read in order: their cost is inside every number.

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "filter/builder.h"
#include "filter/view.h"

namespace {

using namespace weir::filter;

constexpr KeyShape kV4 = {4, 32, false};
constexpr KeyShape kV6 = {6, 128, false};
constexpr size_t kProbes = size_t{1} << 20;  // keys in the probe array, a multiple of the batch

// splitmix64's finaliser: a permutation, so that counting gives distinct keys.
uint64_t scatter(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// The i-th key: members are 0..n-1, strangers lie behind. v4: an odd multiplier permutes the 2^32 addresses.
uint64_t key_word(KeyShape shape, unsigned word, uint64_t i) {
  if (shape.family == 4) return static_cast<uint32_t>(i * 0x9e3779b1u);
  return scatter(i * 2 + word);
}

struct Fixture {
  weir::Mapping memory;
  SnapshotView view;
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "bench_filter: %s\n", why.c_str());
  std::exit(1);
}

// A snapshot of n keys, in transparent huge pages where the system gives them. Built once, kept.
const Fixture& fixture(KeyShape shape, uint64_t n_keys) {
  static std::map<std::pair<unsigned, uint64_t>, Fixture> kept;
  const auto [at, is_new] = kept.try_emplace({shape.family, n_keys});
  Fixture& fixture = at->second;
  if (!is_new) return fixture;

  SnapshotInput input;
  input.secret = {scatter(1), scatter(2)};
  input.lists = {{"bench", WEIR_DROP, WEIR_ENFORCE, n_keys}};
  input.sets = {{{0}}, {{1}}};
  input.rules = {{0, 0}, {1, 0}};
  KeyTable& table = input.tables.emplace_back();
  table.shape = shape;
  table.rules.assign(n_keys, 1);
  for (unsigned w = 0; w < key_words(shape); w++) {
    table.words[w].resize(n_keys);
    for (uint64_t i = 0; i < n_keys; i++) table.words[w][i] = key_word(shape, w, i);
  }
  const auto plan = plan_snapshot(input);
  if (!plan) give_up(plan.error());
  const size_t bytes = plan->header.total_bytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) give_up("no memory");
  madvise(memory, bytes, MADV_HUGEPAGE);  // without them the numbers are larger, not wrong
  fixture.memory = weir::Mapping(memory, bytes);
  if (const auto built = build_snapshot(input, *plan, fixture.memory.bytes()); !built) give_up(built.error());
  const auto view = SnapshotView::open(fixture.memory.bytes());
  if (!view) give_up(view.error());
  fixture.view = *view;
  return fixture;
}

struct Probes {
  std::vector<uint64_t> words[WEIR_MAX_KEY_WORDS];
};

Probes make_probes(KeyShape shape, uint64_t n_keys, bool members) {
  Probes probes;
  for (unsigned w = 0; w < key_words(shape); w++) {
    probes.words[w].resize(kProbes);
    for (size_t i = 0; i < kProbes; i++) {
      const uint64_t scattered = scatter(i + 12345);
      probes.words[w][i] = key_word(shape, w, members ? scattered % n_keys : n_keys + scattered % (uint64_t{1} << 31));
    }
  }
  return probes;
}

enum class Stage { check, check_then_find, find };

void run(benchmark::State& state, const Kernels* kernels, KeyShape shape, uint64_t n_keys, bool members, Stage stage) {
  const Fixture& snapshot = fixture(shape, n_keys);
  const ShapeView& table = snapshot.view.shapes()[0];
  const Probes probes = make_probes(shape, n_keys, members);
  uint64_t found = 0, keys = 0;
  size_t at = 0;
  for (auto _ : state) {
    const uint64_t* words[WEIR_MAX_KEY_WORDS] = {};
    for (unsigned w = 0; w < key_words(shape); w++) words[w] = probes.words[w].data() + at;
    uint64_t hash[kMaxBatch];
    uint64_t hits = ~uint64_t{0};
    if (stage == Stage::find) {  // the filter bypassed
      kernels->siphash13(table.secret, words, key_words(shape), kMaxBatch, hash);
    } else {
      hits = filter_check(*kernels, table, words, kMaxBatch, hash);
    }
    if (stage == Stage::check) {
      found += static_cast<uint64_t>(__builtin_popcountll(hits));
    } else {
      if (hits == ~uint64_t{0}) kernels->layout[WEIR_LAYOUT_LINE8].prefetch(table.exact_lines, hash, kMaxBatch);
      for (; hits != 0; hits &= hits - 1) {
        const auto i = static_cast<unsigned>(__builtin_ctzll(hits));
        Key key;
        for (unsigned w = 0; w < key_words(shape); w++) key.word[w] = words[w][i];
        found += exact_find(table, key, hash[i]) != 0;
      }
    }
    keys += kMaxBatch;
    at = (at + kMaxBatch) % kProbes;
  }
  benchmark::DoNotOptimize(found);
  using Counter = benchmark::Counter;
  state.counters["per_key"] = Counter(static_cast<double>(keys), Counter::kIsRate | Counter::kInvert);
  state.counters["hit_ratio"] = static_cast<double>(found) / static_cast<double>(keys);
}

void register_all() {
  const std::pair<const char*, KeyShape> kShapes[] = {{"v4", kV4}, {"v6", kV6}};
  const std::pair<const char*, Stage> kStages[] = {
      {"check", Stage::check}, {"check+find", Stage::check_then_find}, {"find", Stage::find}};
  for (const auto& [stage_name, stage] : kStages) {
    for (const auto& [shape_name, shape] : kShapes) {
      for (uint64_t n_keys : {100'000u, 1'000'000u, 10'000'000u}) {
        for (const Kernels* kernels : all_kernels()) {
          if (!kernels->usable()) continue;
          for (bool members : {false, true}) {
            const std::string name = std::string(stage_name) + "/" + shape_name + "/keys:" + std::to_string(n_keys) +
                                     "/" + std::string(kernels->name) + "/hits:" + (members ? "100" : "0");
            benchmark::RegisterBenchmark(name.c_str(), run, kernels, shape, n_keys, members, stage);
          }
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
