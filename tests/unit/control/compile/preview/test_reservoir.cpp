#include <cmath>
#include <cstring>

#include "common/ip.h"
#include "control/compile/preview/reservoir.h"
#include "control/policy/model/packet.h"
#include "tests/catch.h"

// What of the traffic is kept, and what it stands for.
using namespace weir;
using namespace weir::control;

namespace {

constexpr uint64_t kSecond = 1'000'000'000, kNowNs = 1'700'000'000 * kSecond;

wire::SampledTraffic packet_from(Ipv4 source, uint32_t weight, uint64_t time) {
  wire::SampledTraffic sampled;
  sampled.sample.time_unix_ns = time;
  sampled.sample.weight = weight;
  sampled.sample.frame_bytes = 60;
  sampled.sample.layers = 1;
  weir_packet packet = {};
  packet.family = 4;
  set_address(packet, WEIR_SIDE_SOURCE, source);
  memcpy(sampled.packets[0].data(), &packet, sizeof packet);
  return sampled;
}

double weight_of(const SeenTraffic& seen) {
  double all = 0;
  for (const SeenFrame& frame : seen.frames) all += frame.weight;
  return all;
}

}  // namespace

TEST_CASE("a reservoir that is not full holds what it was told") {
  Reservoir reservoir(1);
  wire::Traffic traffic;
  traffic.samples = {packet_from(1, 7, kNowNs - kSecond), packet_from(2, 9, kNowNs + 5 * kSecond)};
  traffic.samples[1].sample.dropped = 1;
  traffic.samples[1].sample.layers = 2;
  traffic.samples[1].packets[1] = traffic.samples[0].packets[0];
  traffic.samples.emplace_back();
  traffic.samples[2].sample = {kNowNs, 1, 64, wire::FrameKind::not_ip, 0, 0, {}};
  reservoir.take("a", traffic, kNowNs);
  traffic.samples.resize(1);
  reservoir.take("b", traffic, kNowNs);
  const auto seen = reservoir.recent(kNowNs);
  REQUIRE(seen->frames.size() == 4);
  CHECK(seen->targets == std::vector<std::string>{"a", "b"});
  CHECK(weight_of(*seen) == 7 + 9 + 1 + 7);
  CHECK(seen->from_unix_ns == kNowNs - kSecond);
  CHECK(seen->to_unix_ns == kNowNs);  // nothing comes from the future
  size_t tunnels = 0, others = 0, of_b = 0;
  for (const SeenFrame& frame : seen->frames) {
    of_b += frame.target;
    others += frame.kind == wire::FrameKind::not_ip;
    if (frame.inner.empty()) continue;
    tunnels++;
    CHECK(frame.was_dropped);
    CHECK(address_of<Ipv4>(frame.outer, WEIR_SIDE_SOURCE) == 2);
    CHECK(address_of<Ipv4>(frame.inner[0], WEIR_SIDE_SOURCE) == 1);
  }
  CHECK((tunnels == 1 && others == 1 && of_b == 1));
}

TEST_CASE("a reservoir keeps within its bounds, and what it keeps stands for all that came") {
  Reservoir reservoir(2);
  PlanSettings settings;
  settings.samples = 1600;  // 100 a slice
  settings.recent_s = 150;  // of 10 s
  reservoir.set(settings);
  double all = 0, of_first = 0, seen_all = 0, seen_of_first = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; round++) {
    const uint64_t begin = kNowNs + static_cast<uint64_t>(round) * 1000 * kSecond;
    for (uint64_t second = 0; second < 140; second++) {
      wire::Traffic traffic;
      for (uint32_t i = 0; i < 60; i++) {  // one in 20 packets is of source 1; weights differ
        const uint32_t weight = i % 7 == 0 ? 50 : 10, source = i % 20 == 0 ? 1 : 2;
        traffic.samples.push_back(packet_from(source, weight, begin + second * kSecond));
        all += weight;
        of_first += source == 1 ? weight : 0;
      }
      reservoir.take("a", traffic, begin + second * kSecond);
    }
    CHECK(reservoir.size() <= settings.samples);
    const auto seen = reservoir.recent(begin + 140 * kSecond);
    CHECK(seen->frames.size() >= 1300);
    std::array<size_t, 14> by_time = {};
    for (const SeenFrame& frame : seen->frames) {
      by_time[(frame.time_unix_ns - begin) / (10 * kSecond)]++;
      seen_all += frame.weight;
      seen_of_first += address_of<Ipv4>(frame.outer, WEIR_SIDE_SOURCE) == 1 ? frame.weight : 0;
    }
    for (size_t slice = 1; slice + 1 < by_time.size(); slice++) CHECK((by_time[slice] > 60 && by_time[slice] < 140));
  }
  CHECK(std::abs(seen_all / all - 1) < 0.01);
  CHECK(std::abs(seen_of_first / of_first - 1) < 0.05);  // some 2,600 of 53,000 samples
}

TEST_CASE("frames leave a reservoir when they are old, and it can be switched off") {
  Reservoir reservoir(3);
  PlanSettings settings;
  settings.recent_s = 60;
  reservoir.set(settings);
  wire::Traffic traffic;
  traffic.samples = {packet_from(1, 1, kNowNs - 61 * kSecond), packet_from(2, 1, kNowNs - 30 * kSecond)};
  reservoir.take("a", traffic, kNowNs);
  CHECK(reservoir.recent(kNowNs)->frames.size() == 1);
  CHECK(reservoir.recent(kNowNs + 31 * kSecond)->frames.empty());
  CHECK(reservoir.recent(kNowNs + 31 * kSecond)->from_unix_ns == 0);
  settings.samples = 0;
  reservoir.set(settings);
  CHECK(reservoir.size() == 0);
  reservoir.take("a", traffic, kNowNs);
  CHECK(reservoir.size() == 0);
}

TEST_CASE("a reservoir counts the samples that a target had no room for, and those that were lost on the way") {
  Reservoir reservoir(3);
  const auto tell = [&](const char* target, wire::TrafficBody body, size_t frames) {
    wire::Traffic traffic;
    traffic.body = body;
    traffic.samples.assign(frames, packet_from(1, 1, kNowNs));
    reservoir.take(target, traffic, kNowNs);
    return std::pair(reservoir.counts().taken, reservoir.counts().lost);
  };
  using Pair = std::pair<uint64_t, uint64_t>;
  // The target counted 50 before this reservoir asked it.
  CHECK(tell("a", {.start_time_unix = 1, .sampled = 100, .lost = 50, .told = 45, .waiting = 5}, 3) == Pair{3, 0});
  CHECK(tell("a", {.start_time_unix = 1, .sampled = 110, .lost = 52, .told = 49, .waiting = 9}, 4) == Pair{7, 2});
  CHECK(tell("a", {.start_time_unix = 1, .sampled = 120, .lost = 52, .told = 59, .waiting = 9}, 7) == Pair{14, 5});
  // It started anew: what waited in it is lost.
  CHECK(tell("a", {.start_time_unix = 2, .sampled = 6, .lost = 1, .told = 5, .waiting = 0}, 5) == Pair{19, 15});
  CHECK(tell("b", {.start_time_unix = 1, .sampled = 6, .lost = 1, .told = 5, .waiting = 0}, 5) == Pair{24, 15});
}
