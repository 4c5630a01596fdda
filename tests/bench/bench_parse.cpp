// What one frame costs before its first lookup, in ns of processor time a packet over bursts of 32:
//
//   parse/FRAMES      parse_frame alone
//   stage/FRAMES      the parse stage, on mbufs, for lookups of addresses
//   fields/FRAMES     the same, for lookups that ask for ports or protocol, too
//   tunnels/FRAMES    the parse stage with every tunnel in the policy
//   keys/FRAMES       the parse stage, and the keys of two lookups: addresses as source and as destination
//
// WEIR_BENCH_ITERATIONS=N runs N bursts of each, no more and no less, for counting instructions.
// 1024 frames take turns: their first lines and their mbufs fit L2, as fresh ones from a card would lie in L3.

#include <benchmark/benchmark.h>
#include <rte_mbuf.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dataplane/burst/stages.h"
#include "filter/probe/dispatch.h"
#include "tests/unit/filter/frame/frames.h"

namespace weir::bench {
namespace {

using namespace dataplane;
using test::Bytes;
using test::operator+;

constexpr size_t kBursts = 32;
constexpr size_t kRoomBytes = 2176;  // as the data plane's mbufs
constexpr size_t kHeadroomBytes = 128;

Bytes padded(Bytes frame, size_t size_bytes) {
  if (frame.size() < size_bytes) frame.resize(size_bytes);
  return frame;
}

Bytes v4_udp(std::mt19937& random, size_t size_bytes, const Bytes& in_front) {
  test::V4 packet;
  packet.source = static_cast<uint32_t>(random());
  packet.destination = static_cast<uint32_t>(random());
  packet.payload.resize(size_bytes - in_front.size() - 20);
  return padded(in_front + test::ipv4(packet), size_bytes);
}

// Sizes are without FCS, as a port gives them: 4 bytes less than on the wire.
Bytes v4_64(std::mt19937& random) {
  return v4_udp(random, 60, test::ethernet(0x0800));
}
Bytes v4_imix(std::mt19937& random) {  // 7 : 4 : 1
  const unsigned of_twelve = static_cast<unsigned>(random() % 12);
  return v4_udp(random, of_twelve < 7 ? 60 : of_twelve < 11 ? 566 : 1514, test::ethernet(0x0800));
}
Bytes qinq_v4(std::mt19937& random) {
  return v4_udp(random, 68, test::ethernet(0x88a8) + test::vlan(0x8100) + test::vlan(0x0800));
}
Bytes v6_two_extensions(std::mt19937& random) {
  Bytes frame = test::ethernet(0x86dd) +
                test::v6_around(0, test::extension(60) + test::extension(test::kUdp) + test::udp_payload());
  for (const size_t byte : {29u, 45u, 21u, 37u}) frame[byte] = static_cast<uint8_t>(random());
  return padded(frame, 82);
}
Bytes v4_tcp_and_udp(std::mt19937& random) {
  const bool tcp = random() % 2 == 0;
  return padded(test::ethernet(0x0800) + test::v4_around(tcp ? test::kTcp : test::kUdp, tcp ? test::tcp(2) : Bytes(8)),
                60);
}
Bytes vxlan_v4(std::mt19937& random) {
  const Bytes inner = v4_udp(random, 60, test::ethernet(0x0800));
  return test::ethernet(0x0800) + test::v4_around(test::kUdp, test::udp(1, 4789, test::vlan(0) + Bytes(4) + inner));
}

struct Traffic {
  const char* name;
  Bytes (*make)(std::mt19937& random);
};
constexpr Traffic kTraffic[] = {
    {"v4_udp_64", v4_64},
    {"v4_imix", v4_imix},
    {"qinq_v4", qinq_v4},
    {"v6_two_extensions", v6_two_extensions},
    {"v4_tcp_and_udp", v4_tcp_and_udp},
    {"vxlan_v4", vxlan_v4},
};

// mbufs and their data. Rooms lie as far apart as in a mempool, where each has its mbuf in front.
class Mbufs {
 public:
  explicit Mbufs(const Traffic& traffic)
      : mbufs_(new rte_mbuf[kBursts * kMaxReceived]()),
        rooms_(kBursts * kMaxReceived * (sizeof(rte_mbuf) + kRoomBytes)) {
    std::mt19937 random(1);
    for (size_t i = 0; i < kBursts * kMaxReceived; i++) {
      rte_mbuf& mbuf = mbufs_[i];
      const Bytes frame = traffic.make(random);
      mbuf.buf_addr = rooms_.data() + i * (sizeof(rte_mbuf) + kRoomBytes);
      mbuf.data_off = kHeadroomBytes;
      mbuf.data_len = static_cast<uint16_t>(frame.size());
      mbuf.pkt_len = static_cast<uint32_t>(frame.size());
      mbuf.nb_segs = 1;
      std::copy(frame.begin(), frame.end(), rte_pktmbuf_mtod(&mbuf, uint8_t*));
    }
  }
  void receive(size_t burst_number, uint32_t n, Burst& burst) const {
    clear(burst);
    burst.n = n;
    for (uint32_t i = 0; i < n; i++) burst.pkt[i] = &mbufs_[burst_number * kMaxReceived + i];
  }

 private:
  std::unique_ptr<rte_mbuf[]> mbufs_;
  std::vector<uint8_t> rooms_;
};

void count(benchmark::State& state, uint32_t n = kMaxReceived) {
  state.counters["ns_per_packet"] =
      benchmark::Counter(n * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void parse_alone(benchmark::State& state, const Traffic& traffic) {
  const Mbufs mbufs(traffic);
  auto burst = std::make_unique<Burst>();
  size_t number = 0;
  for (auto _ : state) {
    mbufs.receive(number++ % kBursts, kMaxReceived, *burst);
    for (uint32_t i = 0; i < kMaxReceived; i++) {
      const rte_mbuf* packet = burst->pkt[i];
      benchmark::DoNotOptimize(
          filter::parse_frame(rte_pktmbuf_mtod(packet, const uint8_t*), packet->data_len, burst->hdr[i]));
    }
    benchmark::ClobberMemory();
  }
  count(state);
}

void parse_stage(benchmark::State& state, const Traffic& traffic, Wants wants) {
  const Mbufs mbufs(traffic);
  auto burst = std::make_unique<Burst>();
  WorkerCounters counters;
  const uint32_t n = most_received(wants);
  size_t number = 0;
  for (auto _ : state) {
    mbufs.receive(number++ % kBursts, n, *burst);
    parse(wants, {}, *burst, counters);
    benchmark::ClobberMemory();
  }
  count(state, n);
}

void parse_and_keys(benchmark::State& state, const Traffic& traffic) {
  const Mbufs mbufs(traffic);
  auto burst = std::make_unique<Burst>();
  auto batch = std::make_unique<KeyBatch>();
  WorkerCounters counters;
  filter::ShapeView shapes[2];
  shapes[0].shape = {4, 32};
  shapes[1].shape = {6, 128};
  const auto kernels = filter::choose_kernels();
  std::vector<Lookup> lookups;
  for (const filter::ShapeView& shape : shapes) {
    for (const Side side : {kSource, kDestination}) lookups.push_back({&shape, side, side, {{~0ull, ~0ull}}});
  }
  size_t number = 0;
  for (auto _ : state) {
    mbufs.receive(number++ % kBursts, kMaxReceived, *burst);
    parse({}, {}, *burst, counters);
    burst->asked[kSource] = burst->asked[kDestination] = low_bits(burst->n);
    for (const Lookup& lookup : lookups) keys(lookup, **kernels, *burst, *batch);
    benchmark::ClobberMemory();
  }
  count(state);
}

// iterations: 0: as many as make the time steady; otherwise so many, for counting instructions.
void register_all(int64_t iterations) {
  const auto add = [&](const std::string& name, auto function, auto... arguments) {
    auto* benchmark = benchmark::RegisterBenchmark(name.c_str(), function, arguments...);
    if (iterations > 0) benchmark->Iterations(iterations);
  };

  for (const Traffic& traffic : kTraffic) {
    const std::string name = traffic.name;
    add("parse/" + name, parse_alone, traffic);
    add("stage/" + name, parse_stage, traffic, Wants{});
    add("fields/" + name, parse_stage, traffic, Wants{.tunnels = 0, .fields = true});
    add("tunnels/" + name, parse_stage, traffic, Wants{.tunnels = WEIR_TUNNELS, .fields = true});
    add("keys/" + name, parse_and_keys, traffic);
  }
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  const char* iterations = getenv("WEIR_BENCH_ITERATIONS");
  weir::bench::register_all(iterations == nullptr ? 0 : std::atoll(iterations));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
