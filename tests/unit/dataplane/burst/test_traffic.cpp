#include <random>

#include "dataplane/burst/traffic.h"
#include "dataplane/serve/sample_drain.h"
#include "filter/probe/dispatch.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/judging.h"

// Which frames become samples of the traffic, with which weight, and what is told about them.
using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

std::vector<wire::SampledTraffic> drain(TrafficSampler& sampler) {
  std::vector<wire::SampledTraffic> drained;
  while (wire::SampledTraffic* sampled = sampler.ring().front()) {
    drained.push_back(*sampled);
    sampler.ring().pop();
  }
  return drained;
}

Headers packet_of(const wire::SampledTraffic& sampled, uint32_t layer) {
  Headers packet;
  memcpy(&packet, sampled.packets[layer].data(), sizeof packet);
  return packet;
}

uint32_t source_of(const wire::SampledTraffic& sampled, uint32_t layer) {
  return __builtin_bswap32(static_cast<uint32_t>(packet_of(sampled, layer).address[0][0]));
}

struct Sampling : Ports {
  explicit Sampling(TrafficSampler& to) : sampler(to) {}
  void judged(Burst& burst, uint64_t slots, const Route&) { sampler.sample(burst, slots); }
  TrafficSampler& sampler;
};

void judge_and_sample(const Snapshot& snapshot, std::span<const Bytes> frames, TrafficSampler& sampler) {
  std::vector<std::unique_ptr<Packet>> packets;
  for (const Bytes& frame : frames) packets.push_back(std::make_unique<Packet>(frame));
  Sampling sampling(sampler);
  WorkerCounters counters;
  TestLoop loop(sampling, **filter::choose_kernels(), counters);
  loop.receive(snapshot.of_worker(0), packets, 7);
  loop.finish();
}

// A judged burst whose frame i has the length 1 + i.
struct Full {
  Full() {
    for (uint32_t i = 0; i < kMaxBurst; i++) {
      packets.push_back(std::make_unique<Packet>(Bytes(1 + i, 0)));
      burst->pkt[i] = packets.back()->mbuf();
    }
    burst->n = kMaxBurst;
    burst->not_ip = ~uint64_t{0};
  }
  std::vector<std::unique_ptr<Packet>> packets;
  std::unique_ptr<Burst> burst = std::make_unique<Burst>();
};

}  // namespace

TEST_CASE("of the traffic every frame is told once when each is a sample, whether it waits, leaves at once or drops") {
  filter::SnapshotInput input = policy();
  input.tunnels = WEIR_TUNNEL_IPIP;
  input.unparsed_action = WEIR_DROP;
  const auto snapshot = attach(build(input));
  const Bytes inner = ipv4({kUdp, udp_payload(), 0x0a000004, 0x08080808});
  const std::vector<Bytes> frames = {
      v4_frame(0x01020304),                                             // no gate lets it through: passes at once
      v4_frame(0x0a000001),                                             // dropped
      ethernet(0x0800) + ipv4({kIpip, inner, 0x0a000063, 0x0a000063}),  // dropped by what is inside
      v4_frame(0x0a000003),                                             // allowed
      ethernet(0x0806) + Bytes(28, 1),                                  // ARP
      Bytes(10, 0),                                                     // malformed, and dropped
      v6_frame(1, 2),
  };
  TrafficSampler sampler;
  judge_and_sample(*snapshot, frames, sampler);
  CHECK(sampler.sampled() == 0);  // nobody asked for any
  sampler.set(1);
  judge_and_sample(*snapshot, frames, sampler);
  std::vector<wire::SampledTraffic> sampled = drain(sampler);
  REQUIRE(sampled.size() == frames.size());
  const auto told = [&](auto is_it) {
    const auto found = std::find_if(sampled.begin(), sampled.end(), is_it);
    REQUIRE(found != sampled.end());
    const wire::SampledTraffic one = *found;
    sampled.erase(found);
    CHECK(one.sample.weight == 1);
    return one;
  };
  const auto from = [&](uint32_t source) {
    return told([=](const auto& one) { return one.sample.layers != 0 && source_of(one, 0) == source; });
  };
  CHECK(from(0x01020304).sample.dropped == 0);
  const wire::SampledTraffic dropped = from(0x0a000001);
  CHECK(dropped.sample.dropped == 1);
  CHECK(dropped.sample.frame_bytes == frames[1].size());
  CHECK(packet_of(dropped, 0).protocol == kUdp);
  const wire::SampledTraffic tunnel = from(0x0a000063);
  CHECK(tunnel.sample.dropped == 1);
  REQUIRE(tunnel.sample.layers == 2);
  CHECK(source_of(tunnel, 1) == 0x0a000004);
  CHECK(from(0x0a000003).sample.dropped == 0);
  CHECK(told([](const auto& one) { return one.sample.kind == wire::FrameKind::not_ip; }).sample.layers == 0);
  CHECK(told([](const auto& one) { return one.sample.kind == wire::FrameKind::malformed; }).sample.dropped == 1);
  CHECK(packet_of(sampled.front(), 0).family == 6);
  sampler.set(0);
  judge_and_sample(*snapshot, frames, sampler);
  CHECK(drain(sampler).empty());
}

TEST_CASE("samples of the traffic weigh as much as the frames that came, and every frame has the same share") {
  Full full;
  std::mt19937_64 random(3);
  TrafficSampler sampler;
  uint64_t frames = 0, came[kMaxBurst] = {}, weight[kMaxBurst] = {};
  for (int round = 0; round < 40'000; round++) {
    if (round % 1000 == 0) sampler.set(1 + static_cast<uint32_t>(random() % 60));
    const uint64_t slots = random() & random();
    frames += static_cast<uint64_t>(__builtin_popcountll(slots));
    for (uint64_t left = slots; left != 0; left &= left - 1) came[__builtin_ctzll(left)]++;
    sampler.sample(*full.burst, slots);
    for (const auto& one : drain(sampler)) weight[one.sample.frame_bytes - 1] += one.sample.weight;
  }
  uint64_t all = 0;
  for (uint32_t i = 0; i < kMaxBurst; i++) {
    all += weight[i];
    CHECK(std::abs(static_cast<double>(weight[i]) - static_cast<double>(came[i])) <=
          6 * std::sqrt(60 * static_cast<double>(came[i])));
  }
  CHECK(std::abs(static_cast<double>(all) - static_cast<double>(frames)) <= 40 * 60);  // the runs that were cut off
}

TEST_CASE("when nobody asks, samples of the traffic become rarer and heavier, and none is lost") {
  Full full;
  TrafficSampler sampler;
  sampler.set(1);
  uint64_t frames = 0;
  for (int round = 0; round < 200'000; round++) {
    sampler.sample(*full.burst, ~uint64_t{0});
    frames += kMaxBurst;
  }
  CHECK(sampler.lost() == 0);
  const std::vector<wire::SampledTraffic> sampled = drain(sampler);
  CHECK(sampled.size() < TrafficRing::kSlots);
  CHECK(sampled.size() > TrafficRing::kSlots / 2);
  uint64_t weight = 0;
  for (const auto& one : sampled) weight += one.sample.weight;
  const uint64_t heaviest = sampled.back().sample.weight;
  CHECK(weight + heaviest >= frames);
  CHECK(weight <= frames + heaviest);
  sampler.set(1);
  sampler.sample(*full.burst, ~uint64_t{0});
  CHECK(drain(sampler).size() == kMaxBurst);  // asked for, all is as before
}

TEST_CASE("a full ring of traffic loses samples and counts them") {
  Full full;
  TrafficSampler sampler;
  sampler.set(1);
  for (uint64_t burst = 0; burst < 20'000'000 && sampler.lost() < 10; burst++)
    sampler.sample(*full.burst, ~uint64_t{0});
  CHECK(sampler.lost() == 10);
  CHECK(sampler.sampled() == 10 + TrafficRing::kSlots);
  CHECK(drain(sampler).size() == TrafficRing::kSlots);
}

TEST_CASE("the pace of traffic samples follows the frames that come") {
  constexpr uint64_t kSecond = 1'000'000;
  TrafficPace pace;
  CHECK(pace.one_in(500, 77, 5 * kSecond, kSecond) == 1);  // nothing is known yet
  CHECK(pace.one_in(500, 77 + 1'000'000, 6 * kSecond, kSecond) == 2000);
  CHECK(pace.one_in(500, 77 + 1'000'001, 6 * kSecond + 5, kSecond) == 2000);  // too soon to tell
  CHECK(pace.one_in(500, 77 + 1'000'400, 8 * kSecond, kSecond) == 1);
  CHECK(pace.one_in(0, 77 + 9'000'000, 9 * kSecond, kSecond) == 0);
}

TEST_CASE("a message holds as much traffic as fits") {
  Full full;
  TrafficSampler sampler;
  sampler.set(1);
  sampler.sample(*full.burst, 0b111);
  const SampleClock clock(tsc_ticks(), 1'000'000'000);
  std::vector<std::byte> body(sizeof(wire::TrafficBody));
  CHECK(append_traffic(sampler, clock, body.size() + 2 * wire::traffic_message_bytes(0) + 1, body) == 2);
  wire::TrafficBody head = {.n_samples = 2};
  memcpy(body.data(), &head, sizeof head);
  wire::Message message;
  message.body = body;
  const std::optional<wire::Traffic> traffic = wire::traffic_from(message);
  REQUIRE(traffic);
  REQUIRE(traffic->samples.size() == 2);
  CHECK(traffic->samples[1].sample.frame_bytes == 2);
  const auto now_s = static_cast<uint64_t>(time(nullptr));
  CHECK(now_s - traffic->samples[1].sample.time_unix_ns / 1'000'000'000 <= 60);
  CHECK(sampler.ring().size() == 1);
}
