// What a packet costs in each stage of a worker, without ports: bench_stages STATE_DIR CAPTURE
//
//   STATE_DIR  of a data plane that has ended: its saved snapshot judges
//   CAPTURE    pcap; frames are copied into mbufs that are used again and again, as net_pcap does with infinite_rx
//
// Core cycles a packet, over runs of about a millisecond: the fastest run, and the median. `copy` is the copying alone,
// `added` what the worker makes of it beyond that. One JSON object. Stages are timed in runs of their own, since the
// clock costs, too.

#include <pcap/pcap.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "dataplane/burst/flight.h"
#include "dataplane/burst/stages.h"
#include "dataplane/start/state_dir.h"
#include "filter/probe/dispatch.h"

namespace weir::bench {
namespace {

using namespace dataplane;

constexpr size_t kRoomBytes = 2432;  // an mbuf and its data in a mempool: sizeof(rte_mbuf), 2176, padding, its header
constexpr size_t kHeadroomBytes = 128;
constexpr size_t kMbufs = 512;  // in turns: what a mempool's cache holds
constexpr unsigned kBurstsInRun = 256;
constexpr unsigned kAdds = 1 << 20;

enum Stage { kRx, kParse, kLookups, kVerdict, kTx, kStages };
constexpr const char* kNames[] = {"rx", "parse", "lookups", "verdict", "tx"};

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

class Rooms {
 public:
  explicit Rooms(size_t n) : memory_(n * kRoomBytes) {
    for (size_t i = 0; i < n; i++) {
      rte_mbuf& mbuf = *at(i);
      mbuf = {};
      mbuf.buf_addr = memory_.data() + i * kRoomBytes + sizeof(rte_mbuf);
      mbuf.data_off = kHeadroomBytes;
      mbuf.nb_segs = 1;
    }
  }
  rte_mbuf* at(size_t i) { return reinterpret_cast<rte_mbuf*>(memory_.data() + i * kRoomBytes); }

 private:
  std::vector<uint8_t> memory_;
};

std::vector<std::vector<uint8_t>> read_frames(const std::string& path) {
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* capture = pcap_open_offline(path.c_str(), error);
  if (capture == nullptr) {
    fprintf(stderr, "bench_stages: %s\n", error);
    exit(2);
  }
  std::vector<std::vector<uint8_t>> frames;
  pcap_pkthdr header;
  while (const u_char* bytes = pcap_next(capture, &header)) {
    frames.emplace_back(bytes, bytes + std::min<size_t>(header.caplen, kRoomBytes - sizeof(rte_mbuf) - kHeadroomBytes));
  }
  pcap_close(capture);
  return frames;
}

class Port {
 public:
  explicit Port(const std::vector<std::vector<uint8_t>>& frames)
      : n_frames_(frames.size()), source_(frames.size()), mbufs_(kMbufs) {
    for (size_t i = 0; i < n_frames_; i++) {
      std::copy(frames[i].begin(), frames[i].end(), rte_pktmbuf_mtod(source_.at(i), uint8_t*));
      source_.at(i)->data_len = static_cast<uint16_t>(frames[i].size());
    }
  }
  void receive(Burst& burst) {
    burst.n = kMaxBurst;
    burst.bytes = 0;
    for (uint32_t i = 0; i < kMaxBurst; i++) {
      const rte_mbuf* from = source_.at(next_frame_);
      next_frame_ = next_frame_ + 1 == n_frames_ ? 0 : next_frame_ + 1;
      rte_mbuf* to = mbufs_.at(next_mbuf_++ % kMbufs);
      memcpy(rte_pktmbuf_mtod(to, void*), rte_pktmbuf_mtod(from, const void*), from->data_len);
      to->data_len = from->data_len;
      to->pkt_len = from->data_len;
      burst.pkt[i] = to;
    }
  }

 private:
  size_t n_frames_, next_frame_ = 0, next_mbuf_ = 0;
  Rooms source_, mbufs_;
};

class Clock {
 public:
  explicit Clock(bool on) : on_(on), last_(on ? __rdtsc() : 0) {}
  void lap(Stage stage) {
    if (!on_) return;
    const uint64_t now = __rdtsc();
    ticks[stage] += now - last_;
    last_ = now;
  }
  std::array<uint64_t, kStages> ticks = {};

 private:
  bool on_;
  uint64_t last_;
};

Result<std::unique_ptr<Snapshot>> open_snapshot(const std::string& folder) {
  const Result<StateDir> state = StateDir::open(folder);
  if (!state) return Error{state.error()};
  const Result<std::optional<size_t>> size = state->saved_snapshot_size();
  if (!size) return Error{size.error()};
  if (!*size) return Error{folder + " holds no snapshot"};
  const WorkerPlace worker = {};
  auto copies = Snapshot::allocate(**size, {&worker, 1});
  if (!copies) return Error{copies.error()};
  const Result<Digest> digest = state->load_snapshot(copies->front().memory.mapping.bytes().first(**size));
  if (!digest) return Error{digest.error()};
  return Snapshot::open(std::move(*copies), **size, Digest{}, {&worker, 1});
}

// tx, as far as it is ours: which frames go where.
uint64_t g_sent = 0;

struct Rig {
  const WorkerSnapshot& snapshot;
  Port& port;
  Flight flight;
  WorkerCounters counters;
  Route route = {};

  void run(Clock& clock) {
    for (unsigned b = 0; b < kBurstsInRun; b++) {
      if (flight.full()) {
        flight.drain();
        finish(clock);
      }
      Burst& burst = flight.next();
      port.receive(burst);
      for (uint32_t i = 0; i < burst.n; i++) burst.bytes += burst.pkt[i]->pkt_len;
      clock.lap(kRx);
      parse(snapshot.wants, burst, counters);
      clock.lap(kParse);
      look_up(snapshot, route, flight);
      clock.lap(kLookups);
      finish(clock);
    }
    flight.drain();
    finish(clock);
  }
  void finish(Clock& clock) {
    while (Burst* done = flight.pop()) {
      clock.lap(kLookups);
      verdict(*done->snapshot, *done, counters);
      clock.lap(kVerdict);
      g_sent += done->n - static_cast<unsigned>(__builtin_popcountll(done->drop));
      clock.lap(kTx);
    }
    clock.lap(kLookups);
  }
};

nlohmann::json summary(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {{"best", values.front()}, {"median", values[values.size() / 2]}};
}

int measure(const std::string& snapshot_path, const std::string& capture, unsigned look_ahead, unsigned runs) {
  const auto kernels = filter::choose_kernels();
  if (!kernels) {
    fprintf(stderr, "bench_stages: %s\n", kernels.error().c_str());
    return 2;
  }
  const auto snapshot = open_snapshot(snapshot_path);
  if (!snapshot) {
    fprintf(stderr, "bench_stages: %s: %s\n", snapshot_path.c_str(), snapshot.error().c_str());
    return 2;
  }
  Port port(read_frames(capture));
  Rig rig{(*snapshot)->of_worker(0), port, Flight(**kernels, look_ahead), {}};
  auto spare = std::make_unique<Burst>();
  constexpr double kPackets = double{kBurstsInRun} * kMaxBurst;
  std::vector<double> copy, all, added, stages[kStages], ghz;
  for (unsigned round = 0; round < runs; round++) {
    const double tsc = tsc_per_core_cycle();
    const auto cycles = [&](uint64_t ticks) { return static_cast<double>(ticks) / tsc / kPackets; };
    uint64_t begin = __rdtsc();
    for (unsigned b = 0; b < kBurstsInRun; b++) port.receive(*spare);
    copy.push_back(cycles(__rdtsc() - begin));
    Clock off(false);
    begin = __rdtsc();
    rig.run(off);
    all.push_back(cycles(__rdtsc() - begin));
    added.push_back(all.back() - copy.back());
    Clock on(true);
    rig.run(on);
    for (unsigned stage = 0; stage < kStages; stage++) stages[stage].push_back(cycles(on.ticks[stage]));
  }
  nlohmann::json result = {
      {"look_ahead", look_ahead},
      {"copy", summary(copy)},
      {"all", summary(all)},
      {"added", summary(added)},
      {"dropped", static_cast<double>(rig.counters.dropped.get()) / static_cast<double>(rig.counters.packets.get())}};
  result["added_best"] = *std::min_element(all.begin(), all.end()) - *std::min_element(copy.begin(), copy.end());
  for (unsigned stage = 0; stage < kStages; stage++) result["stages"][kNames[stage]] = summary(stages[stage]);
  printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  CLI::App app("Core cycles a packet, by stage of a worker.", "bench_stages");
  std::string snapshot, capture;
  unsigned look_ahead = 1, runs = 200;
  app.add_option("STATE_DIR", snapshot)->required();
  app.add_option("CAPTURE", capture)->required();
  app.add_option("--look-ahead", look_ahead);
  app.add_option("--runs", runs);
  CLI11_PARSE(app, argc, argv);
  return weir::bench::measure(snapshot, capture, look_ahead, runs);
}
