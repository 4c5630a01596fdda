// What one 16-byte key costs, by number of keys and hit ratio: filter, exact stage and both, every layout, and beside
// them DPDK's rte_member (vBF asked for 1 %, HT) and rte_hash. scripts/bench filter runs it, one process a size.
//
//   bench_filter --benchmark_filter='keys:1000000/'
//
// Names are WHAT/keys:N/hits:PERCENT. Counters, in ns of processor time a key: net_ns without making the key, keys_ns
// of making it, limit_ns of a random line gather on memory as large as the filter, in the same run. Label: how far
// ahead.

#include <benchmark/benchmark.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filter/layouts/layout.h"
#include "tests/bench/filter_lanes.h"
#include "tests/bench/filter_loops.h"
#include "tests/bench/filter_peers.h"
#include "tests/bench/filter_rig.h"
#include "tests/bench/filter_tables.h"
#include "tests/bench/standard.h"

namespace weir::bench {
namespace {

using namespace filter;

constexpr weir_layout kLayouts[] = {WEIR_LAYOUT_LINE8, WEIR_LAYOUT_PAGE2, WEIR_LAYOUT_PAGE7, WEIR_LAYOUT_RIBBON,
                                    kStandard};
constexpr double kVbfRate = 0.01;
constexpr unsigned kBatch = 64;

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    const auto found = choose_kernels();
    if (!found) give_up(found.error());
    return **found;
  }();
  return chosen;
}

std::vector<Pace> filter_paces() {
  std::vector<Pace> paces = pipelined_paces();
  for (unsigned batch : {32u, 64u}) paces.push_back({batch, kNoPrefetch});
  return paces;
}

// Everything of one size, each made when it is first asked for. Only one size is in memory at a time.
class Tables {
 public:
  explicit Tables(uint64_t n_keys) : n_keys_(n_keys) {}

  const TestFilter& filter(weir_layout layout) {
    auto& kept = filters_[layout];
    if (!kept) {
      kept = std::make_unique<TestFilter>(make_filter(layout, n_keys_, kBitsPerKey));
      unpin();
      mark_members(kernels(), *kept, kSecret, member_columns(n_keys_).view(), 2);
      pin_to_one();
    }
    return *kept;
  }
  const TestSnapshot& snapshot() {
    if (!snapshot_) {
      snapshot_ = std::make_unique<TestSnapshot>(plan_members(n_keys_, WEIR_LAYOUT_LINE8, kBitsPerKey));
      unpin();
      build_members(*snapshot_, 2);
      pin_to_one();
      snapshot_->drop_input();
      open_view(*snapshot_);
    }
    return *snapshot_;
  }
  const MemberPeer& member(bool vbf) {
    auto& kept = members_[vbf];
    if (!kept) kept = std::make_unique<MemberPeer>(vbf, n_keys_, kVbfRate);
    return *kept;
  }
  const HashPeer& hash() {
    if (!hash_) hash_ = std::make_unique<HashPeer>(n_keys_);
    return *hash_;
  }

  // Keys are made in the same way for every loop of a kind, and the limit is that of the line8 filter.
  double limit_ns() {
    if (!limit_) limit_ = std::make_unique<Loop>(best_rolling(filter(WEIR_LAYOUT_LINE8).bits()));
    const auto series = alternate({make_hashes_only(kBatch), *limit_}, 3, 5);
    return median(series[1].ns_per_key) - median(series[0].ns_per_key);
  }

  // The pace that suits one kind of loop, looked for once.
  Pace pace(const std::string& kind, const std::vector<Pace>& paces, const std::function<Loop(Pace)>& make) {
    const auto kept = paces_.find(kind);
    if (kept != paces_.end()) return kept->second;
    std::vector<Loop> loops;
    for (Pace pace : paces) loops.push_back(make(pace));
    return paces_[kind] = paces[fastest(loops)];
  }

 private:
  uint64_t n_keys_;
  std::map<weir_layout, std::unique_ptr<TestFilter>> filters_;
  std::unique_ptr<TestSnapshot> snapshot_;
  std::map<bool, std::unique_ptr<MemberPeer>> members_;
  std::unique_ptr<HashPeer> hash_;
  std::unique_ptr<Loop> limit_;
  std::map<std::string, Pace> paces_;
};

Tables& tables_of(uint64_t n_keys) {
  static std::pair<uint64_t, std::unique_ptr<Tables>> kept;
  if (kept.first != n_keys) {
    kept.second.reset();
    kept = {n_keys, std::make_unique<Tables>(n_keys)};
  }
  return *kept.second;
}

const std::string& no_peers() {
  static const std::string why = start_eal();
  return why;
}

struct Case {
  uint64_t n_keys;
  double hit_ratio;
};

enum class Keys { none, hashes, columns, rows };

Loop making(Keys keys, const Case& c) {
  if (keys == Keys::hashes) return make_hashes_only(kBatch);
  if (keys == Keys::rows) return make_rows_only(kBatch, c.n_keys, c.hit_ratio);
  return make_columns_only(kBatch, c.n_keys, c.hit_ratio);
}

void run(benchmark::State& state, Case c, Keys keys, bool is_peer, const std::function<Loop(Tables&)>& make) {
  if (is_peer && !no_peers().empty()) return state.SkipWithError(no_peers().c_str());
  constexpr uint64_t kAtATime = 1 << 16;
  Tables& tables = tables_of(c.n_keys);
  const Loop loop = make(tables);
  loop.work(kAtATime);
  uint64_t n = 0;
  const double start = thread_ns();
  for (auto _ : state) {
    benchmark::DoNotOptimize(loop.work(kAtATime));
    n += kAtATime;
  }
  const double ns = (thread_ns() - start) / static_cast<double>(n);
  const double keys_ns = keys == Keys::none ? 0 : median(alternate({making(keys, c)}, 3, 2)[0].ns_per_key);
  state.counters["net_ns"] = ns - keys_ns;
  state.counters["keys_ns"] = keys_ns;
  state.counters["limit_ns"] = tables.limit_ns();
  state.SetLabel(loop.name + ", " + std::string(kernels().name) + ", " +
                 tables.filter(WEIR_LAYOUT_LINE8).memory.pages());
}

void add(const std::string& what, Case c, Keys keys, bool is_peer, std::function<Loop(Tables&)> make) {
  const std::string name = what + "/keys:" + std::to_string(c.n_keys) +
                           "/hits:" + std::to_string(static_cast<unsigned>(c.hit_ratio * 100 + 0.5));
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { run(state, c, keys, is_peer, make); });
}

void register_ours(Case c) {
  const uint64_t n = c.n_keys;
  const double hits = c.hit_ratio;
  add("filter_pipelined/line8", c, Keys::columns, false, [=](Tables& t) {
    const FilterBits bits = t.filter(WEIR_LAYOUT_LINE8).bits();
    const auto make = [&](Pace pace) { return lookup_keys_woven(kernels(), bits, kSecret, pace, n, hits); };
    return make(t.pace("filter_pipelined", filter_paces(), make));
  });
  add("filter_call/line8", c, Keys::columns, false,
      [=](Tables& t) { return lookup_keys_sync(kernels(), t.snapshot().table(), kBatch, n, hits); });
  add("filter_and_table", c, Keys::columns, false, [=](Tables& t) {
    const ShapeView& shape = t.snapshot().table();
    const auto make = [&](Pace pace) { return lookup_rules(kernels(), shape, pace, n, hits); };
    return make(t.pace("filter_and_table", pipelined_paces(), make));
  });
  add("table", c, Keys::columns, false, [=](Tables& t) {
    const ShapeView& shape = t.snapshot().table();
    const auto make = [&](Pace pace) { return lookup_table_only(kernels(), shape, pace, n, hits); };
    return make(t.pace("table", pipelined_paces(), make));
  });
}

void register_peers(Case c) {
  const uint64_t n = c.n_keys;
  const double hits = c.hit_ratio;
  add("rte_member_vbf", c, Keys::rows, true, [=](Tables& t) { return t.member(true).lookup(kBatch, n, hits); });
  add("rte_member_ht", c, Keys::rows, true, [=](Tables& t) { return t.member(false).lookup(kBatch, n, hits); });
  add("rte_hash", c, Keys::rows, true, [=](Tables& t) { return t.hash().lookup(kBatch, n, hits); });
}

void register_all() {
  for (uint64_t n : {100'000u, 1'000'000u, 10'000'000u, 100'000'000u}) {
    for (weir_layout layout : kLayouts) {  // the hash excluded
      const std::string name(layout_of(layout).name);
      add("filter_hashes/" + name, {n, 0}, Keys::hashes, false, [=](Tables& t) {
        const FilterBits bits = t.filter(layout).bits();
        const auto make = [&](Pace pace) { return lookup_hashes(kernels(), layout, bits, pace); };
        return make(t.pace("filter_hashes/" + name, filter_paces(), make));
      });
    }
    for (double hits : {0.0, 0.01, 0.1, 0.5, 1.0}) register_ours({n, hits});
    for (double hits : {0.0, 0.01, 0.1, 0.5, 1.0}) register_peers({n, hits});
  }
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  weir::bench::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  weir::bench::pin_to_one();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
