// What a packet costs in a worker, without a driver: bench_stages STATE_DIR CAPTURE [options]
//
//   STATE_DIR  of a data plane that has ended: its saved snapshot judges, with its overlay
//   CAPTURE    pcap
//
// The whole worker runs on ports in memory (memory_port.h): io is the ports alone. Core cycles a packet: in rounds of
// {io, worker}; `stages` are of the worker's own sampled passes, in rounds of their own, since the clock costs, too.
// One JSON object.
//
// With --count the worker judges so many frames once, for valgrind, whose counts are those of these frames. With --cold
// the caches that valgrind simulates are emptied at each burst: what is missed is what is touched (scripts/bench
// stages).

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <x86intrin.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_ZERO_STATS
#endif

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "dataplane/burst/worker.h"
#include "dataplane/snapshot/saved.h"
#include "dataplane/start/state_dir.h"
#include "filter/probe/dispatch.h"
#include "tests/bench/memory_port.h"

namespace weir::bench {
namespace {

using namespace dataplane;
using nlohmann::json;

constexpr unsigned kMbufs = 8191, kPoolCache = 512, kDataRoom = 2176;
constexpr uint16_t kDescriptors = 512;
constexpr unsigned kBurstsInRun = 1024, kWarmUpBursts = 128;
constexpr unsigned kAdds = 1 << 20;
constexpr uint64_t kMostSnapshotBytes = uint64_t{1} << 36;

struct Options {
  std::string snapshot, capture;
  unsigned rounds = 200, idle_ports = 0, sample_one_in = 8;
  uint16_t most = 32;
  bool sink = false, huge = false, cold = false;
  uint64_t count = 0;
};

// One after the other waits for the one before: one core cycle each.
double tsc_per_core_cycle() {
  double best = 1e9;
  for (int round = 0; round < 5; round++) {
    uint64_t x = 1;
    const uint64_t begin = __rdtsc();
    for (unsigned i = 0; i < kAdds; i++) asm volatile("add $1, %0" : "+r"(x));
    best = std::min(best, static_cast<double>(__rdtsc() - begin) / kAdds);
  }
  return best;
}

Result<std::unique_ptr<Snapshot>> open_snapshot(const std::string& folder) {
  const Result<StateDir> state = StateDir::open(folder);
  if (!state) return Error{state.error()};
  const WorkerPlace worker = {};
  Result<std::unique_ptr<Snapshot>> snapshot = Saved(*state).restore({&worker, 1}, kMostSnapshotBytes);
  if (snapshot && *snapshot == nullptr) return Error{folder + " holds no snapshot"};
  return snapshot;
}

// net_null ports, which memory ports then replace.
Result<void> start_ports(unsigned n, rte_mempool* pool) {
  for (uint16_t port = 0; port < n; port++) {
    const rte_eth_conf conf = {};
    if (rte_eth_dev_configure(port, 1, 1, &conf) != 0 ||
        rte_eth_rx_queue_setup(port, 0, kDescriptors, SOCKET_ID_ANY, nullptr, pool) != 0 ||
        rte_eth_tx_queue_setup(port, 0, kDescriptors, SOCKET_ID_ANY, nullptr) != 0 || rte_eth_dev_start(port) != 0) {
      return Error{"port " + std::to_string(port) + " does not start"};
    }
  }
  return {};
}

Result<void> start_eal(const Options& options, int cpu) {
  std::vector<std::string> words = {"bench_stages",
                                    "--no-pci",
                                    "--no-telemetry",
                                    "--log-level",
                                    "error",
                                    "--lcores",
                                    "0@" + std::to_string(cpu),
                                    "--file-prefix",
                                    "stages" + std::to_string(getpid())};
  const std::vector<std::string> memory =
      options.huge ? std::vector<std::string>{"--in-memory"} : std::vector<std::string>{"--no-huge", "-m", "256"};
  words.insert(words.end(), memory.begin(), memory.end());
  for (unsigned port = 0; port <= options.idle_ports; port++) {
    words.push_back("--vdev");
    words.push_back("net_null" + std::to_string(port) + ",no-rx=1");
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0) return Error{"EAL does not start"};
  return {};
}

class Bench {
 public:
  Bench(const Options& options, rte_mempool* pool, FrameStore frames, const filter::Kernels& kernels,
        SnapshotSlot& slot)
      : options_(options), frames_(std::move(frames)), kernels_(kernels), slot_(slot) {
    busy_ = {pool, &frames_, options.most, [this] { before_burst(); }, [this] { after_burst(); }};
    idle_ = {pool, nullptr, 0, {}, {}};
    replace_port(0, busy_);
    for (unsigned port = 1; port <= options.idle_ports; port++) replace_port(static_cast<uint16_t>(port), idle_);
  }

  struct Ran {
    double ticks;                                   // TSC, of the bursts after the warm-up
    uint64_t packets;                               // in them
    double dropped;                                 // share
    std::array<double, wire::kStages> stage_ticks;  // a packet, of the sampled passes
  };

  // The worker, from its start to its end; counted are the bursts behind the warm-up.
  Ran judge(unsigned bursts, uint32_t sample_one_in) {
    Worker worker;
    for (unsigned port = 0; port <= options_.idle_ports; port++) {
      Route route;
      route.in.port = static_cast<uint16_t>(port);
      route.out.port = static_cast<uint16_t>(port ^ (options_.idle_ports != 0 ? 1 : 0));
      route.sink = options_.sink;
      worker.routes.push_back(route);
    }
    worker.load.prepare(worker.routes.size(), rte_get_tsc_hz());
    Switches switches;
    switches_ = &switches;
    left_ = bursts + kWarmUpBursts;
    counted_ = bursts;
    const WorkerSetup setup = {switches, slot_, true, false, kernels_, IdleConfig{IdleMode::poll}, sample_one_in};
    run(worker, setup);
    Ran ran = {static_cast<double>(ended_ - began_),
               ended_frames_ - began_frames_,
               static_cast<double>(worker.counters.dropped.get()) / static_cast<double>(worker.counters.packets.get()),
               {}};
    const uint64_t sampled = worker.gauges.stage_packets[0].get();
    for (uint32_t stage = 0; stage < wire::kStages && sampled != 0; stage++) {
      ran.stage_ticks[stage] =
          static_cast<double>(worker.gauges.stage_cycles[stage].get()) / static_cast<double>(sampled);
    }
    return ran;
  }

  // The same frames through the ports alone. Returns TSC ticks.
  double io(unsigned bursts) {
    uint64_t began = 0;
    switches_ = nullptr;
    for (unsigned burst = 0; burst < bursts + kWarmUpBursts; burst++) {
      if (burst == kWarmUpBursts) began = __rdtsc();
      rte_mbuf* packets[64];
      const uint16_t n = rte_eth_rx_burst(0, 0, packets, options_.most);
      if (options_.sink) {
        rte_pktmbuf_free_bulk(packets, n);
      } else {
        rte_eth_tx_burst(0, 0, packets, n);
      }
    }
    return static_cast<double>(__rdtsc() - began);
  }

 private:
  void before_burst() {
    if (switches_ == nullptr) return;
    if (left_ == counted_) {
      CALLGRIND_START_INSTRUMENTATION;
      CALLGRIND_ZERO_STATS;
      began_frames_ = frames_.taken();
      began_ = __rdtsc();
    }
    if (left_-- != 0) return;
    ended_ = __rdtsc();
    CALLGRIND_STOP_INSTRUMENTATION;
    ended_frames_ = frames_.taken();
    switches_->stop.store(true, std::memory_order_relaxed);
    left_ = UINT64_MAX;  // what is still given until it stops is not counted
    counted_ = 0;
  }

  // Instrumentation that begins anew begins with empty caches.
  void after_burst() {
    if (!options_.cold || switches_ == nullptr || left_ >= counted_) return;
    CALLGRIND_STOP_INSTRUMENTATION;
    CALLGRIND_START_INSTRUMENTATION;
  }

  const Options& options_;
  FrameStore frames_;
  const filter::Kernels& kernels_;
  SnapshotSlot& slot_;
  MemoryPortOptions busy_, idle_;
  Switches* switches_ = nullptr;
  uint64_t left_ = 0, counted_ = 0, began_ = 0, ended_ = 0, began_frames_ = 0, ended_frames_ = 0;
};

json summary(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {{"best", values.front()}, {"median", values[values.size() / 2]}};
}

json measure(Bench& bench, const Options& options) {
  std::vector<double> io, all, added, stages[wire::kStages];
  double dropped = 0;
  for (unsigned round = 0; round < options.rounds; round++) {
    const double tsc = tsc_per_core_cycle();
    io.push_back(bench.io(kBurstsInRun) / tsc / (static_cast<double>(kBurstsInRun) * options.most));
    const Bench::Ran ran = bench.judge(kBurstsInRun, 0);
    all.push_back(ran.ticks / tsc / static_cast<double>(ran.packets));
    added.push_back(all.back() - io.back());
    dropped = ran.dropped;
    const Bench::Ran sampled = bench.judge(kBurstsInRun, options.sample_one_in);
    for (uint32_t stage = 0; stage < wire::kStages; stage++) stages[stage].push_back(sampled.stage_ticks[stage] / tsc);
  }
  json result = {{"io", summary(io)}, {"all", summary(all)}, {"added", summary(added)}, {"dropped", dropped}};
  for (uint32_t stage = 0; stage < wire::kStages; stage++) {
    result["stages"][wire::stage_name(static_cast<wire::Stage>(stage))] = summary(stages[stage]);
  }
  return result;
}

json count(Bench& bench, const Options& options) {
  const unsigned bursts = static_cast<unsigned>(options.count / options.most);
  const Bench::Ran ran = bench.judge(bursts, 0);
  return {{"packets", ran.packets}, {"bursts", bursts}, {"dropped", ran.dropped}};
}

Result<json> run_all(const Options& options) {
  const auto kernels = filter::choose_kernels();
  if (!kernels) return Error{kernels.error()};
  if (Result<void> started = start_eal(options, sched_getcpu()); !started) return Error{started.error()};
  Result<std::unique_ptr<Snapshot>> snapshot = open_snapshot(options.snapshot);
  if (!snapshot) return Error{options.snapshot + ": " + snapshot.error()};
  Result<FrameStore> frames = FrameStore::read(options.capture, kDataRoom - RTE_PKTMBUF_HEADROOM);
  if (!frames) return Error{frames.error()};
  rte_mempool* pool = rte_pktmbuf_pool_create("mbufs", kMbufs, kPoolCache, 0, kDataRoom, SOCKET_ID_ANY);
  if (pool == nullptr) return Error{"no memory for mbufs"};
  if (Result<void> started = start_ports(1 + options.idle_ports, pool); !started) return Error{started.error()};
  Result<std::unique_ptr<SnapshotSlot>> slot = SnapshotSlot::make(1);
  if (!slot) return Error{slot.error()};
  (*slot)->exchange(std::move(*snapshot));
  Bench bench(options, pool, std::move(*frames), **kernels, **slot);
  json result = options.count != 0 ? count(bench, options) : measure(bench, options);
  result["kernels"] = (*kernels)->name;
  return result;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  weir::bench::Options options;
  CLI::App app("Core cycles a packet of a worker on ports in memory, and by stage.", "bench_stages");
  app.add_option("STATE_DIR", options.snapshot)->required();
  app.add_option("CAPTURE", options.capture)->required();
  app.add_option("--rounds", options.rounds);
  app.add_option("--most", options.most, "frames that a port gives at once; what a worker asks for may be less")
      ->check(CLI::Range(1, 64));
  app.add_option("--idle-ports", options.idle_ports, "ports beside it that give none");
  app.add_flag("--sink", options.sink, "frames are not sent");
  app.add_flag("--huge", options.huge, "mbufs in huge pages");
  app.add_option("--count", options.count, "frames, for valgrind");
  app.add_flag("--cold", options.cold, "empty caches at each burst, in valgrind");
  CLI11_PARSE(app, argc, argv);
  const auto found = weir::bench::run_all(options);
  if (!found) {
    fprintf(stderr, "bench_stages: %s\n", found.error().c_str());
    return 2;
  }
  printf("%s\n", found->dump().c_str());
  fflush(stdout);
  std::_Exit(0);  // nothing that would have to be given back
}
