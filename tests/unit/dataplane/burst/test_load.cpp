#include <rte_mbuf.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "common/bits.h"
#include "dataplane/burst/load.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::dataplane;

namespace {

constexpr uint64_t kHz = 1000;  // of the TSC of a test
constexpr uint64_t kHalfLife = WorkerLoad::kHalfLifeSeconds * kHz;

// Ethernet, then IPv4 or IPv6 without a payload.
std::vector<uint8_t> v4_frame(uint32_t source) {
  std::vector<uint8_t> bytes(34);
  bytes[12] = 0x08;
  bytes[14] = 0x45;
  bytes[17] = 20;
  for (unsigned i = 0; i < 4; i++) bytes[26 + i] = static_cast<uint8_t>(source >> (24 - 8 * i));
  return bytes;
}

std::vector<uint8_t> v6_frame(uint64_t network, uint64_t host) {
  std::vector<uint8_t> bytes(54);
  bytes[12] = 0x86;
  bytes[13] = 0xdd;
  bytes[14] = 0x60;
  bytes[20] = 59;  // no next header
  for (unsigned i = 0; i < 8; i++) {
    bytes[22 + i] = static_cast<uint8_t>(network >> (56 - 8 * i));
    bytes[30 + i] = static_cast<uint8_t>(host >> (56 - 8 * i));
  }
  return bytes;
}

void note(WorkerLoad& load, std::vector<std::vector<uint8_t>> frames) {
  std::vector<rte_mbuf> mbufs(frames.size());
  std::vector<rte_mbuf*> pointers;
  for (size_t i = 0; i < frames.size(); i++) {
    mbufs[i].buf_addr = frames[i].data();
    mbufs[i].data_len = static_cast<uint16_t>(frames[i].size());
    mbufs[i].pkt_len = mbufs[i].data_len;
    pointers.push_back(&mbufs[i]);
  }
  load.note(pointers.data(), weir::low_bits(static_cast<uint32_t>(pointers.size())));
}

wire::Telemetry told(const WorkerLoad& load, const std::vector<Route>& routes = {}) {
  wire::Telemetry telemetry;
  load.add_to(telemetry, routes);
  return telemetry;
}

uint64_t weight_of(const HeavySources& sources, uint64_t address) {
  for (const auto& source : sources.read()) {
    if (source.address == address) return source.weight;
  }
  return 0;
}

}  // namespace

TEST_CASE("a few sources are weighed exactly") {
  HeavySources sources;
  CHECK(sources.read().empty());
  for (uint64_t n = 1; n <= HeavySources::kSlots; n++) {
    for (uint64_t i = 0; i < n; i++) sources.add(n, 3);
  }
  const auto read = sources.read();
  REQUIRE(read.size() == HeavySources::kSlots);
  for (size_t i = 0; i < read.size(); i++) {  // those that weigh most first
    CHECK(read[i].address == HeavySources::kSlots - i);
    CHECK(read[i].weight == 3 * read[i].address);
  }
}

TEST_CASE("whatever comes, no source weighs more than it does, nor less by more than 1/17 of all") {
  std::mt19937 random(1);
  for (const unsigned kinds : {5u, 17u, 40u, 100'000u}) {
    for (const unsigned heavy_percent : {0u, 10u, 30u, 71u}) {
      HeavySources sources;
      std::map<uint64_t, uint64_t> truth;
      uint64_t all = 0;
      for (int i = 0; i < 20'000; i++) {
        const uint64_t address = random() % 100 < heavy_percent ? 7 : 1000 + random() % kinds;
        const uint64_t weight = 1 + random() % 5;
        sources.add(address, weight);
        truth[address] += weight;
        all += weight;
      }
      bool holds = true;
      for (const auto& [address, weight] : truth) {
        const uint64_t found = weight_of(sources, address);
        holds = holds && found <= weight && weight - found <= all / (HeavySources::kSlots + 1);
      }
      CHECK(holds);
      CHECK(sources.read().size() <= HeavySources::kSlots);
      if (heavy_percent >= 30) CHECK(sources.read().at(0).address == 7);
    }
  }
}

TEST_CASE("one pass of different sources after another leaves none of them heavy") {
  HeavySources sources;
  for (uint64_t i = 0; i < 17 * 1000; i++) sources.add(i, 256);
  for (const auto& source : sources.read()) CHECK(source.weight <= 256);
}

TEST_CASE("weights are halved, and what weighs nothing leaves its place") {
  HeavySources sources;
  for (uint64_t n = 0; n < HeavySources::kSlots; n++) sources.add(n, n == 0 ? 1024 : 1);
  sources.halve(1);
  CHECK(sources.read().size() == 1);
  CHECK(weight_of(sources, 0) == 512);
  sources.add(99, 5);
  CHECK(weight_of(sources, 99) == 5);
  CHECK(weight_of(sources, 0) == 512);
  sources.halve(63);
  CHECK(sources.read().empty());
}

TEST_CASE("each queue of a worker has its frames") {
  WorkerLoad load;
  std::vector<Route> routes(3);
  for (uint16_t i = 0; i < 3; i++) routes[i].in = {i, static_cast<uint16_t>(10 + i)};
  load.prepare(routes.size(), kHz);
  load.received(0, 64);
  load.received(2, 7);
  load.received(2, 1);
  const std::vector<wire::QueueCount> queues = told(load, routes).queues;
  REQUIRE(queues.size() == 3);
  CHECK(queues[0].packets == 64);
  CHECK(queues[1].packets == 0);
  CHECK(queues[2].packets == 8);
  CHECK(queues[2].port == 2);
  CHECK(queues[2].queue == 12);
}

TEST_CASE("a worker with very many queues tells of the first ones") {
  WorkerLoad load;
  const std::vector<Route> routes(wire::kMaxQueues + 5);
  load.prepare(routes.size(), kHz);
  load.received(wire::kMaxQueues + 4, 1);
  CHECK(told(load, routes).queues.size() == wire::kMaxQueues);
}

TEST_CASE("the source of seven frames in ten is told of, whatever the others are") {
  for (const bool v6 : {false, true}) {
    WorkerLoad load;
    load.prepare(1, kHz);
    std::mt19937 random(2);
    for (int pass = 0; pass < 2000; pass++) {
      std::vector<std::vector<uint8_t>> frames;
      for (int i = 0; i < 32; i++) {
        const bool heavy = random() % 10 < 7;
        if (v6) {
          // Of one /64, and every host of it another.
          frames.push_back(v6_frame(heavy ? 0x20010db800000007 : uint64_t{0x20010db9} << 32 | random(), random()));
        } else {
          frames.push_back(v4_frame(heavy ? 0xcb007107 : static_cast<uint32_t>(random())));
        }
      }
      note(load, frames);
      load.settle(5);
    }
    const wire::Telemetry telemetry = told(load);
    const double looked_at = static_cast<double>(telemetry.body.sampled) / wire::kFrameWeight;
    CHECK(looked_at == Approx(2000.0 * 32 / WorkerLoad::kOneIn).epsilon(0.05));
    REQUIRE_FALSE(telemetry.sources.empty());
    const wire::SourceCount& heaviest = telemetry.sources[0];
    CHECK(source_text(heaviest) == (v6 ? "2001:db8:0:7::/64" : "203.0.113.7"));
    const double share = static_cast<double>(heaviest.weight) / static_cast<double>(telemetry.body.sampled);
    CHECK(share > 0.70 - 0.3 / 17 - 0.03);
    CHECK(share < 0.73);
    for (size_t i = 1; i < telemetry.sources.size(); i++) {
      CHECK(telemetry.sources[i].weight < telemetry.body.sampled / 50);
    }
  }
}

TEST_CASE("frames without a source count among all, and one of no length harms nobody") {
  WorkerLoad load;
  load.prepare(1, kHz);
  for (int pass = 0; pass < 1000; pass++) {
    note(load, {std::vector<uint8_t>(60), v4_frame(1), std::vector<uint8_t>(1), v4_frame(1)});
    load.settle(5);
  }
  const wire::Telemetry telemetry = told(load);
  REQUIRE(telemetry.sources.size() == 1);
  CHECK(static_cast<double>(telemetry.sources[0].weight) / static_cast<double>(telemetry.body.sampled) ==
        Approx(0.5).margin(0.1));
}

TEST_CASE("frames that were long ago count less") {
  WorkerLoad load;
  load.prepare(1, kHz);
  const auto pass = [&](uint32_t source, uint64_t now) {
    note(load, std::vector<std::vector<uint8_t>>(64, v4_frame(source)));
    load.settle(now);
  };
  for (int i = 0; i < 100; i++) pass(1, 10'000);
  const uint64_t before = told(load).body.sampled;
  CHECK(told(load).sources.at(0).weight == before);
  pass(2, 10'000 + kHalfLife);
  CHECK(told(load).sources.at(0).weight == before / 2);
  CHECK(told(load).body.sampled - before / 2 == told(load).sources.at(1).weight);
  pass(3, 10'000 + 100 * kHalfLife);  // nothing came for a long time
  REQUIRE(told(load).sources.size() == 1);
  CHECK(told(load).sources[0].address == 3);
}
