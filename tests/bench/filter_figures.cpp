// Measures what the figures of the filter are made of and prints it as one JSON object. scripts/figures filter runs it;
// docs/figures.md tells what each number is.
//
//   filter_figures limit --keys N     filter against the gather limit: pipelined, look-ahead 1, from 16-byte keys
//   filter_figures peers --keys N     beside rte_member and rte_hash

#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "filter/dispatch.h"
#include "tests/bench/filter_lanes.h"
#include "tests/bench/filter_loops.h"
#ifdef WEIR_BENCH_DPDK
#include "tests/bench/filter_peers.h"
#endif
#include "tests/bench/filter_rig.h"
#include "tests/bench/filter_tables.h"

namespace weir::bench {
namespace {

using namespace filter;
using nlohmann::json;

struct Options {
  uint64_t n_keys = 1'000'000;
  unsigned rounds = 15;
  double sample_ms = 15;
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
  const Loop limit_la1 = gather_paced(kernels(), bits, la1);
  const Loop ours_la1 = lookup_hashes(kernels(), filter.layout, bits, la1);
  const Loop keyed = best_of(
      unfetched_too(), [&](Pace pace) { return lookup_keys_woven(kernels(), bits, kSecret, pace, filter.n_keys, 0); });
  const auto s = alternate(
      {make_hashes_only(64), limit, pipelined, limit_la1, ours_la1, keyed, make_columns_only(64, filter.n_keys, 0)},
      options.rounds, options.sample_ms);
  out["gather"] = compare(s[1], s[0], s[2], s[0], limit.name, pipelined.name);
  out["gather_la1"] = compare(s[3], s[0], s[4], s[0], limit_la1.name, ours_la1.name);
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
  const HashPeer hash(n);
  out["rte_hash_mib"] = hash.mib();
  out["rte_hash_entries"] = hash.entries();
  const std::pair<const char*, double> kHits[] = {{"vs_rte_hash", 0.01}, {"vs_rte_hash_allhit", 1.0}};
  for (const auto& [name, ratio] : kHits) {
    const Loop ours =
        best_of(pipelined_paces(), [&](Pace pace) { return lookup_rules(kernels(), table, pace, n, ratio); });
    const Loop alone =
        best_of(pipelined_paces(), [&](Pace pace) { return lookup_table_only(kernels(), table, pace, n, ratio); });
    const Loop peer = best_bulk(hash, n, ratio);
    const auto s = alternate({make_columns_only(64, n, ratio), make_rows_only(64, n, ratio), ours, peer, alone},
                             options.rounds, options.sample_ms);
    out[name] = compare(s[3], s[1], s[2], s[0], peer.name, ours.name);
    out[name]["table_alone"] = compare(s[2], s[0], s[4], s[0], ours.name, alone.name);
    // Rules and data are 1 and 2, of as many members each.
    out[name]["found"] = {hit_share(ours) / 1.5, hit_share(peer) / 1.5};
  }
  return out;
}
#endif

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
    command->callback([&out, &options, mode] { out = mode(options); });
  };
  add("limit", "the filter against the gather limit", run_limit);
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
