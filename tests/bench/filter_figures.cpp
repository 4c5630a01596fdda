// Measures what the figures of the filter are made of and prints it as one JSON object. scripts/figures filter runs it;
// docs/develop/figures.md tells what each number is.
//
//   filter_figures limit --keys N          filter against the gather limit: pipelined, look-ahead 1, from 16-byte keys
//   filter_figures build --keys N          time to build a filter and a snapshot
//   filter_figures peers --keys N          beside rte_member and rte_hash
//   filter_figures rates                   false positives against the formulas, false negatives
//   filter_figures loop --what W --keys N  runs one kernel and measures nothing: for callgrind (filter_counted.h)

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "filter/layouts/layout.h"
#include "filter/probe/dispatch.h"
#include "tests/bench/filter_counted.h"
#include "tests/bench/filter_lanes.h"
#include "tests/bench/filter_loops.h"
#ifdef WEIR_BENCH_DPDK
#include "tests/bench/filter_peers.h"
#endif
#include "tests/bench/filter_rig.h"
#include "tests/bench/filter_tables.h"
#include "tests/bench/standard.h"

namespace weir::bench {
namespace {

using namespace filter;
using nlohmann::json;

struct Options {
  uint64_t n_keys = 1'000'000;
  unsigned rounds = 15;
  double sample_ms = 15;
  unsigned runs = 5;    // of a build
  double checks = 1e9;  // for false negatives
  std::string what;
  unsigned batch = kMaxBatch;
};

const Kernels& kernels() {
  static const Kernels& chosen = []() -> const Kernels& {
    const auto kernels = choose_kernels();
    if (!kernels) give_up(kernels.error());
    return **kernels;
  }();
  return chosen;
}

// (a - a_net) / (b - b_net), with all that it was made from.
json compare(const Series& a, const Series& a_net, const Series& b, const Series& b_net, const std::string& a_how,
             const std::string& b_how) {
  const std::vector<double> ratios = net_ratios(a, a_net, b, b_net);
  return {{"ratio", median(ratios)},
          {"ratios", ratios},
          {"a_ns", median(a.ns_per_key)},
          {"a_keys_ns", median(a_net.ns_per_key)},
          {"a", a_how},
          {"b_ns", median(b.ns_per_key)},
          {"b_keys_ns", median(b_net.ns_per_key)},
          {"b", b_how}};
}

json common_facts(double mib, const std::string& pages) {
  return {{"isa", kernels().name}, {"lanes", lanes().name}, {"mib", mib}, {"pages", pages}};
}

std::vector<Pace> unfetched_too() {
  std::vector<Pace> paces = pipelined_paces();
  for (unsigned batch : {32u, 64u}) paces.push_back({batch, kNoPrefetch});
  return paces;
}

// Filter alone against the limit on its own memory.
json limit_of(const TestFilter& filter, const Options& options) {
  json out = common_facts(filter.mib(), filter.memory.pages());
  const FilterBits bits = filter.bits();
  const Loop limit = best_rolling(bits);
  const Loop pipelined =
      best_of(unfetched_too(), [&](Pace pace) { return lookup_hashes(kernels(), filter.layout, bits, pace); });
  const Pace la1 = {32, 1};
  // Both forms of asking 32 lines ahead: a burst of prefetches, then one of loads; and in turns.
  const std::vector<Loop> limits_la1 = {gather_paced(kernels(), bits, la1), gather_rolling(bits, la1.batch)};
  const Loop limit_la1 = limits_la1[fastest(limits_la1)];
  const Loop ours_la1 = lookup_hashes(kernels(), filter.layout, bits, la1);
  const Loop keyed = best_of(
      unfetched_too(), [&](Pace pace) { return lookup_keys_woven(kernels(), bits, kSecret, pace, filter.n_keys, 0); });
  const auto s = alternate(
      {make_hashes_only(64), limit, pipelined, limit_la1, ours_la1, keyed, make_columns_only(64, filter.n_keys, 0)},
      options.rounds, options.sample_ms);
  out["gather"] = compare(s[1], s[0], s[2], s[0], limit.name, pipelined.name);
  out["gather_la1"] = compare(s[3], s[0], s[4], s[0], limit_la1.name, ours_la1.name);
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  out["l2_kib"] = l2 / 1024;
  // Keys whose filter fits L2 as the filter's own rule has it: three quarters of it.
  out["l2_keys"] = static_cast<uint64_t>(static_cast<double>(l2) / 4 * 3 * 8 / kBitsPerKey);
  out["keyed"] = compare(s[1], s[0], s[5], s[6], limit.name, keyed.name);
  return out;
}

json run_limit(const Options& options) {
  TestFilter filter = make_filter(WEIR_LAYOUT_LINE8, options.n_keys, kBitsPerKey);
  {
    const Columns columns = member_columns(options.n_keys);
    mark_members(kernels(), filter, kSecret, columns.view(), 2);
  }
  pin_to_one();
  return limit_of(filter, options);
}

// --- builds ----------------------------------------------------------------------------------------------------------

struct Timed {
  std::vector<double> wall_s, cpu_s;
};

// Before each run the memory is zeroed, and so is there: what the kernel takes to hand out pages is not in the times.
Timed time_builds(const BigMemory& memory, unsigned runs, const std::function<void()>& build) {
  Timed timed;
  for (unsigned run = 0; run < runs; run++) {
    memory.zero();
    const double wall = wall_ns(), cpu = process_ns();
    build();
    timed.wall_s.push_back((wall_ns() - wall) / 1e9);
    timed.cpu_s.push_back((process_ns() - cpu) / 1e9);
  }
  return timed;
}

// cpu_mkeys_s: what it would have been had every thread always had its processor.
json rate_of(const Timed& timed, uint64_t n_keys, unsigned threads) {
  const double mkeys = static_cast<double>(n_keys) / 1e6;
  return {{"mkeys_s", mkeys / median(timed.wall_s)},
          {"cpu_mkeys_s", mkeys / median(timed.cpu_s) * threads},
          {"threads", threads},
          {"wall_s", timed.wall_s},
          {"cpu_s", timed.cpu_s}};
}

json run_build(const Options& options) {
  json out;
  {
    const Columns columns = member_columns(options.n_keys);
    const TestFilter filter = make_filter(WEIR_LAYOUT_LINE8, options.n_keys, kBitsPerKey);
    out = common_facts(filter.mib(), filter.memory.pages());
    for (unsigned threads : {1u, 2u}) {
      const Timed timed = time_builds(filter.memory, options.runs,
                                      [&] { mark_members(kernels(), filter, kSecret, columns.view(), threads); });
      out[threads == 1 ? "filter_one" : "filter"] = rate_of(timed, options.n_keys, threads);
    }
  }
  TestSnapshot snapshot = plan_members(options.n_keys, WEIR_LAYOUT_LINE8, kBitsPerKey);
  out["snapshot_mib"] = snapshot.mib();
  out["snapshot_pages"] = snapshot.memory.pages();
  const Timed timed = time_builds(snapshot.memory, options.runs, [&] { build_members(snapshot, 2); });
  out["snapshot"] = rate_of(timed, options.n_keys, 2);
  return out;
}

// --- rates -----------------------------------------------------------------------------------------------------------

struct RateRow {
  weir_layout layout;
  double bits_per_key;
};

std::vector<RateRow> rate_rows() {
  std::vector<RateRow> rows;
  for (weir_layout layout : {WEIR_LAYOUT_LINE8, WEIR_LAYOUT_PAGE2, WEIR_LAYOUT_PAGE7, kStandard}) {
    for (double bits : {8.0, 10.0, 12.0, 16.0, 20.0}) rows.push_back({layout, bits});
  }
  for (double bits : {9.0, 10.0, 11.0, 12.0}) rows.push_back({WEIR_LAYOUT_RIBBON, bits});
  return rows;
}

// Strangers that pass, among `checks`; keys are hashed as always.
uint64_t count_strangers(const TestFilter& filter, const uint64_t* secret, uint64_t checks, uint64_t seed) {
  KeyStream stream = key_stream(filter.n_keys, 0, seed);
  const FilterBits bits = filter.bits();
  alignas(64) uint64_t words[kKeyWords][kMaxBatch], hash[kMaxBatch];
  const uint64_t* const columns[] = {words[0], words[1]};
  uint64_t passed = 0;
  for (uint64_t i = 0; i < checks; i += kMaxBatch) {
    lanes().fill_columns(stream, words[0], words[1], kMaxBatch);
    kernels().siphash13(secret, columns, kKeyWords, kMaxBatch, hash);
    passed += static_cast<uint64_t>(std::popcount(loops_of(kernels(), filter.layout).check(bits, hash, kMaxBatch)));
  }
  return passed;
}

// Strangers are checked until so many have passed or so many were tried: sigma is then 0.7 %,
// and more (it is printed) for the lowest rates.
constexpr uint64_t kWantedPasses = 20'000, kMaxStrangers = 40'000'000;
constexpr uint64_t kRateKeys = 2'000'000;

json measure_rate(const RateRow& row, const Columns& columns) {
  const TestFilter filter = make_filter(row.layout, kRateKeys, row.bits_per_key);
  mark_members(kernels(), filter, kSecret, columns.view(), 1);
  const double expected = filter.fpr();
  const auto checks = std::min(kMaxStrangers, static_cast<uint64_t>(static_cast<double>(kWantedPasses) / expected)) /
                      kMaxBatch * kMaxBatch;
  const uint64_t passed = count_strangers(filter, kSecret, checks, 1);
  const double measured = static_cast<double>(passed) / static_cast<double>(checks);
  const double sigma = std::sqrt(expected * (1 - expected) / static_cast<double>(checks)) / expected;
  const double off = std::abs(measured / expected - 1);
  return {{"layout", layout_of(row.layout).name},
          {"bits_per_key", filter.size.lines * 512.0 / kRateKeys},
          {"k", filter.size.k},
          {"expected", expected},
          {"measured", measured},
          {"checks", checks},
          {"sigma", sigma},
          {"off", off},
          {"off_less_3_sigma", off - 3 * sigma}};
}

// Members that a filter denies: each set of kernels has its turn.
uint64_t count_lost(const Kernels& set, const TestFilter& filter, const uint64_t* secret, const KeyColumns& keys) {
  uint64_t found = 0;
  for (size_t i = 0; i < keys.n; i += kMaxBatch) {
    const auto n = static_cast<unsigned>(std::min<size_t>(kMaxBatch, keys.n - i));
    const uint64_t* const words[] = {keys.words[0] + i, keys.words[1] + i};
    uint64_t hash[kMaxBatch];
    set.siphash13(secret, words, kKeyWords, n, hash);
    found += static_cast<uint64_t>(std::popcount(loops_of(set, filter.layout).check(filter.bits(), hash, n)));
  }
  return keys.n - found;
}

struct Members {
  std::map<std::string, uint64_t> checks;  // by layout and kernels
  uint64_t n_checks = 0, lost = 0;
};

// Every round has another secret, so other bits; line8 is looked up most of all.
Members check_members(const Columns& columns, uint64_t wanted, uint64_t first_secret) {
  std::vector<TestFilter> filters;
  for (weir_layout layout : {WEIR_LAYOUT_LINE8, WEIR_LAYOUT_PAGE2, WEIR_LAYOUT_PAGE7, WEIR_LAYOUT_RIBBON, kStandard}) {
    filters.push_back(make_filter(layout, kRateKeys, kBitsPerKey));
  }
  Members members;
  for (uint64_t round = 0; members.n_checks < wanted; round++) {
    const uint64_t secret[2] = {first_secret + round, kSecret[1]};
    for (const TestFilter& filter : filters) {
      if (filter.layout != WEIR_LAYOUT_LINE8 && round % 8 != 0) continue;
      filter.memory.zero();
      mark_members(kernels(), filter, secret, columns.view(), 1);
      for (const Kernels* set : all_kernels()) {
        if (!set->usable() || (set != &kernels() && round % 8 != 0)) continue;
        members.lost += count_lost(*set, filter, secret, columns.view());
        members.n_checks += kRateKeys;
        members.checks[std::string(layout_of(filter.layout).name) + "/" + std::string(set->name)] += kRateKeys;
      }
    }
  }
  return members;
}

// Nothing is timed, so every processor works.
json run_rates(const Options& options) {
  json out = common_facts(0, "");
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  const Columns columns = member_columns(kRateKeys);
  const std::vector<RateRow> rows = rate_rows();
  std::vector<json> measured(rows.size());
  std::vector<Members> members(threads);
  std::atomic<size_t> next = 0;
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; t++) {
    workers.emplace_back([&, t] {
      for (size_t i = next++; i < rows.size(); i = next++) measured[i] = measure_rate(rows[i], columns);
      members[t] =
          check_members(columns, static_cast<uint64_t>(options.checks) / threads, kSecret[0] + (uint64_t{t} << 32));
    });
  }
  for (std::thread& worker : workers) worker.join();

  Members all;
  for (const Members& part : members) {
    all.n_checks += part.n_checks;
    all.lost += part.lost;
    for (const auto& [name, count] : part.checks) all.checks[name] += count;
  }
  out["rows"] = measured;
  out["checks"] = all.n_checks;
  out["checks_by_layout"] = all.checks;
  out["false_negatives"] = all.lost;
  return out;
}

// --- peers -----------------------------------------------------------------------------------------------------------

#ifdef WEIR_BENCH_DPDK
double hit_share(const Loop& loop) {
  constexpr uint64_t kKeys = 1 << 22;
  return static_cast<double>(loop.work(kKeys)) / kKeys;
}

// Bulk calls of 32 and 64 keys: what suits the peer.
template <class Peer>
Loop best_bulk(const Peer& peer, uint64_t n_members, double hit_ratio) {
  const std::vector<Loop> loops = {peer.lookup(32, n_members, hit_ratio), peer.lookup(64, n_members, hit_ratio)};
  return loops[fastest(loops)];
}

json run_peers(const Options& options) {
  const uint64_t n = options.n_keys;
  TestSnapshot snapshot = plan_members(n, WEIR_LAYOUT_LINE8, kBitsPerKey);
  build_members(snapshot, 2);
  snapshot.drop_input();
  open_view(snapshot);
  const ShapeView& table = snapshot.table();
  if (const std::string why = start_eal(); !why.empty()) give_up(why);
  pin_to_one();

  json out = common_facts(snapshot.mib(), snapshot.memory.pages());
  out["filter_mib"] = static_cast<double>(table.filter.lines) * WEIR_LINE_BYTES / (1 << 20);
  {
    const MemberPeer vbf(true, n, 0.01);
    const Loop sync =
        best_of({{32, 0}, {64, 0}}, [&](Pace p) { return lookup_keys_sync(kernels(), table, p.batch, n, 0); });
    const Loop pipelined = best_of(unfetched_too(), [&](Pace pace) {
      return lookup_keys_woven(kernels(), table.filter, table.secret, pace, n, 0);
    });
    const Loop peer = best_bulk(vbf, n, 0);
    const auto s = alternate({make_columns_only(64, n, 0), make_rows_only(64, n, 0), pipelined, peer, sync},
                             options.rounds, options.sample_ms);
    out["vs_vbf"] = compare(s[3], s[1], s[2], s[0], peer.name, pipelined.name);
    out["vs_vbf_sync"] = compare(s[3], s[1], s[4], s[0], peer.name, sync.name);
    out["vbf_mib"] = vbf.mib();
    out["vbf_rate"] = hit_share(peer);
    out["rate"] = hit_share(sync);
  }
  {  // what the exact stage's own memory allows
    const Loop limit = best_rolling(table.exact_lines);
    const auto s = alternate({make_hashes_only(64), limit}, options.rounds, options.sample_ms);
    out["table_limit_ns"] = median(s[1].ns_per_key) - median(s[0].ns_per_key);
  }
  const HashPeer hash(n);
  out["rte_hash_mib"] = hash.mib();
  out["rte_hash_entries"] = hash.entries();
  const std::pair<const char*, double> kHits[] = {{"vs_rte_hash", 0.01}, {"vs_rte_hash_allhit", 1.0}};
  for (const auto& [name, hit_ratio] : kHits) {
    const double ratio = hit_ratio;  // clang 14 captures no structured bindings
    const Loop ours =
        best_of(pipelined_paces(), [&](Pace pace) { return lookup_rules(kernels(), table, pace, n, ratio); });
    const Loop alone =
        best_of(pipelined_paces(), [&](Pace pace) { return lookup_table_only(kernels(), table, pace, n, ratio); });
    const Loop peer = best_bulk(hash, n, ratio);
    const auto s = alternate({make_columns_only(64, n, ratio), make_rows_only(64, n, ratio), ours, peer, alone},
                             options.rounds, options.sample_ms);
    out[name] = compare(s[3], s[1], s[2], s[0], peer.name, ours.name);
    out[name]["table_alone"] = compare(s[2], s[0], s[4], s[0], ours.name, alone.name);
    out[name]["hits"] = ratio;
    // Rules and data are 1 and 2, of as many members each.
    out[name]["found"] = {hit_share(ours) / 1.5, hit_share(peer) / 1.5};
  }
  return out;
}
#endif

json run_loop(const Options& options) {
  const uint64_t sum = run_counted(kernels(), options.what, options.batch, options.n_keys);
  return {{"isa", kernels().name}, {"what", options.what}, {"sum", sum}};
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Measures the figures of the filter; prints JSON.", "filter_figures");
  app.require_subcommand(1);
  json out;
  const auto add = [&](const char* name, const char* what, auto mode) {
    CLI::App* command = app.add_subcommand(name, what);
    command->add_option("--keys", options.n_keys)->capture_default_str();
    command->add_option("--rounds", options.rounds)->capture_default_str();
    command->add_option("--sample-ms", options.sample_ms)->capture_default_str();
    command->add_option("--runs", options.runs, "of a build")->capture_default_str();
    command->add_option("--checks", options.checks, "for false negatives")->capture_default_str();
    command->add_option("--what", options.what, "what loop runs: tests/bench/filter_counted.h")->capture_default_str();
    command->add_option("--batch", options.batch, "keys at a time in loop")->check(CLI::Range(1u, kMaxBatch));
    command->callback([&out, &options, mode] { out = mode(options); });
  };
  add("limit", "the filter against the gather limit", run_limit);
  add("build", "time to build a filter and a snapshot", run_build);
  add("rates", "false positives against the formulas, false negatives", run_rates);
  add("loop", "one kernel, for callgrind", run_loop);
#ifdef WEIR_BENCH_DPDK
  add("peers", "beside rte_member and rte_hash", run_peers);
#endif
  CLI11_PARSE(app, argc, argv);
  std::printf("%s\n", out.dump(1).c_str());
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  return weir::bench::run(argc, argv);
}
