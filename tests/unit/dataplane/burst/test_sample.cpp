#include <random>

#include "dataplane/serve/sample_drain.h"
#include "filter/probe/dispatch.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/judging.h"

// Which dropped frames are sampled, and what is told about them.
using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

constexpr uint64_t kTicksPerSecond = 1000;
uint64_t now_ticks = 0;
uint64_t test_ticks() {
  return now_ticks;
}

struct Drained {
  std::vector<wire::Sample> samples;
  std::vector<Bytes> bytes;
};

Headers packet_of(const wire::Sample& sample) {
  Headers packet;
  memcpy(&packet, sample.packet, sizeof packet);
  return packet;
}

Drained drain(Sampler& sampler) {
  Drained drained;
  while (SampleSlot* slot = sampler.ring().front()) {
    drained.samples.push_back(slot->sample);
    drained.bytes.emplace_back(slot->bytes, slot->bytes + slot->sample.captured_bytes);
    sampler.ring().pop();
  }
  return drained;
}

// A burst that no snapshot judged. Frame i of it has the length 1 + i.
struct Unjudged {
  Unjudged() {
    for (uint32_t i = 0; i < kMaxBurst; i++) {
      packets.push_back(std::make_unique<Packet>(Bytes(1 + i, static_cast<uint8_t>(i))));
      burst->pkt[i] = packets.back()->mbuf();
    }
    burst->n = kMaxBurst;
  }
  std::vector<std::unique_ptr<Packet>> packets;
  std::unique_ptr<Burst> burst = std::make_unique<Burst>();
};

struct Sampling : Ports {
  explicit Sampling(Sampler& to) : sampler(to) {}
  void judged(Burst& burst, uint64_t slots, const Route& route) { sampler.sample(burst, burst.drop & slots, route.in); }
  Sampler& sampler;
};

// Judges the frames, which come from port 3, queue 1, and samples what drops. Returns the mask of dropped frames.
uint64_t judge_and_sample(const Snapshot& snapshot, std::span<const Bytes> frames, Sampler& sampler, uint64_t now = 7) {
  std::vector<std::unique_ptr<Packet>> packets;
  for (const Bytes& frame : frames) packets.push_back(std::make_unique<Packet>(frame));
  Sampling sampling(sampler);
  WorkerCounters counters;
  TestLoop loop(sampling, **filter::choose_kernels(), counters);
  loop.receive(snapshot.of_worker(0), packets, now);
  loop.finish();
  uint64_t drop = 0;
  for (const auto& [mbuf, dropped] : sampling.left) {
    for (size_t i = 0; i < packets.size(); i++) {
      if (packets[i]->mbuf() == mbuf) drop |= uint64_t{dropped} << i;
    }
  }
  return drop;
}

}  // namespace

TEST_CASE("of every N dropped frames in a row exactly one is sampled, each place as often as another") {
  std::mt19937_64 random(1);
  Unjudged unjudged;
  for (const uint32_t one_in : {1u, 2u, 3u, 10u, 64u, 100u, 1000u}) {
    INFO("one in " << one_in);
    Sampler sampler(test_ticks);
    sampler.set({one_in, UINT32_MAX, 64, 0}, kTicksPerSecond);
    uint64_t dropped = 0, of_bit[kMaxBurst] = {}, dropped_of_bit[kMaxBurst] = {};
    for (int round = 0; round < 4000; round++) {
      unjudged.burst->drop = round % 3 == 0 ? random() : random() & random() & random();
      for (uint64_t left = unjudged.burst->drop; left != 0; left &= left - 1) dropped_of_bit[__builtin_ctzll(left)]++;
      dropped += static_cast<uint64_t>(__builtin_popcountll(unjudged.burst->drop));
      sampler.sample(*unjudged.burst, unjudged.burst->drop, {});
      const Drained drained = drain(sampler);
      for (size_t s = 0; s < drained.samples.size(); s++) {
        const uint32_t i = drained.samples[s].frame_bytes - 1;
        REQUIRE(i < kMaxBurst);
        REQUIRE((unjudged.burst->drop & bit(i)) != 0);
        REQUIRE(drained.bytes[s] == unjudged.packets[i]->frame);
        of_bit[i]++;
      }
      REQUIRE(sampler.sampled() >= dropped / one_in);
      REQUIRE(sampler.sampled() <= (dropped + one_in - 1) / one_in);
    }
    if (one_in > 64) continue;  // too few samples of each place
    for (uint32_t i = 0; i < kMaxBurst; i++) {
      const double expected = static_cast<double>(dropped_of_bit[i]) / one_in;
      CHECK(std::abs(static_cast<double>(of_bit[i]) - expected) <= 6 * std::sqrt(expected));
    }
  }
}

TEST_CASE("traffic with a period does not fall into step with the samples") {
  Unjudged unjudged;
  Sampler sampler(test_ticks);
  sampler.set({8, UINT32_MAX, 64, 0}, kTicksPerSecond);
  unjudged.burst->drop = ~uint64_t{0};
  uint64_t of_place[8] = {};
  for (int round = 0; round < 1000; round++) {
    sampler.sample(*unjudged.burst, unjudged.burst->drop, {});
    for (const wire::Sample& sample : drain(sampler).samples) of_place[(sample.frame_bytes - 1) % 8]++;
  }
  for (const uint64_t samples : of_place) CHECK(std::abs(static_cast<double>(samples) - 1000) < 200);
}

TEST_CASE("a full ring loses samples and counts them; off samples nothing") {
  Unjudged unjudged;
  Sampler sampler(test_ticks);
  unjudged.burst->drop = ~uint64_t{0};
  sampler.sample(*unjudged.burst, unjudged.burst->drop, {});
  CHECK(sampler.sampled() == 0);
  sampler.set({1, UINT32_MAX, 64, 0}, kTicksPerSecond);
  for (uint64_t round = 0; round < SampleRing::kSlots / kMaxBurst + 2; round++) {
    sampler.sample(*unjudged.burst, unjudged.burst->drop, {});
  }
  CHECK(sampler.lost() == 2 * kMaxBurst);
  CHECK(sampler.ring().size() == SampleRing::kSlots);
  CHECK(sampler.sampled() == SampleRing::kSlots + 2 * kMaxBurst);
  CHECK(drain(sampler).samples.size() == SampleRing::kSlots);
  sampler.set({0, UINT32_MAX, 64, 0}, kTicksPerSecond);
  sampler.sample(*unjudged.burst, unjudged.burst->drop, {});
  CHECK(sampler.ring().size() == 0);
}

TEST_CASE("a list that floods takes no place of another, and its own again in the next second") {
  const auto snapshot = attach(build(policy()));
  Sampler sampler(test_ticks);
  now_ticks = 500 * kTicksPerSecond;
  sampler.set({1, 5, 64, 0}, kTicksPerSecond);
  std::vector<Bytes> frames(20, v4_frame(0x0a000001));  // block
  frames.push_back(v4_frame(0x01010101, 0x0a000005));   // block-too, as destination
  CHECK(judge_and_sample(*snapshot, frames, sampler) == low_bits(21));
  const auto of_list = [](const Drained& drained, std::string_view name) {
    return std::count_if(drained.samples.begin(), drained.samples.end(),
                         [&](const wire::Sample& sample) { return wire::get_text(sample.list) == name; });
  };
  Drained drained = drain(sampler);
  CHECK(of_list(drained, "block") == 5);
  CHECK(of_list(drained, "block-too") == 1);
  CHECK(sampler.limited() == 15);
  now_ticks += kTicksPerSecond - 1;
  judge_and_sample(*snapshot, frames, sampler);
  CHECK(of_list(drain(sampler), "block") == 0);
  now_ticks += 1;
  judge_and_sample(*snapshot, frames, sampler);
  CHECK(of_list(drain(sampler), "block") == 5);
  CHECK(sampler.sampled() == sampler.limited() + 6 + 1 + 6);
}

TEST_CASE("a sample tells who dropped the frame, and the layer that did") {
  filter::SnapshotInput input = policy();
  input.tunnels = WEIR_TUNNEL_IPIP;
  const auto snapshot = attach(build(input));
  Sampler sampler(test_ticks);
  sampler.set({1, 100, 20, 0}, kTicksPerSecond);
  const Bytes inner = ipv4({kUdp, udp_payload(), 0x0a000004, 0x08080808});
  const Bytes tunnelled = ethernet(0x0800) + ipv4({kIpip, inner, 0x0a000063, 0x0a000063});
  const std::vector<Bytes> frames = {v4_frame(0x01020304), tunnelled, v6_frame(9, 1), v4_frame(0x0a000001)};
  CHECK(judge_and_sample(*snapshot, frames, sampler, 77) == 0b1110);
  const Drained drained = drain(sampler);
  REQUIRE(drained.samples.size() == 3);
  const wire::Sample& in_tunnel = drained.samples[0];
  CHECK(in_tunnel.dropped_by == wire::DroppedBy::list);
  CHECK(wire::get_text(in_tunnel.list) == "block");
  CHECK(in_tunnel.layer == 1);
  CHECK(packet_of(in_tunnel).family == 4);
  CHECK(__builtin_bswap32(static_cast<uint32_t>(packet_of(in_tunnel).address[0][0])) == 0x0a000004);
  CHECK(in_tunnel.generation == wire::Generation{input.epoch, input.number});
  CHECK(in_tunnel.now_unix_s == 77);
  CHECK(in_tunnel.port == 3);
  CHECK(in_tunnel.queue == 1);
  CHECK(in_tunnel.frame_bytes == tunnelled.size());
  CHECK(drained.bytes[0] == Bytes(tunnelled.begin(), tunnelled.begin() + 20));
  CHECK(wire::get_text(drained.samples[1].list) == "block-too");
  CHECK(packet_of(drained.samples[1]).family == 6);
  CHECK(drained.samples[2].layer == 0);
}

TEST_CASE("what no list drops has its reason") {
  filter::SnapshotInput input = policy();
  input.default_action = WEIR_DROP;
  input.unparsed_action = WEIR_DROP;
  const auto snapshot = attach(build(input));
  Sampler sampler(test_ticks);
  sampler.set({1, 100, 512, 0}, kTicksPerSecond);
  const std::vector<Bytes> frames = {v4_frame(0x01020304), Bytes(10, 0), v4_frame(0x0a000003)};  // the last one passes
  CHECK(judge_and_sample(*snapshot, frames, sampler) == 0b011);
  const Drained drained = drain(sampler);
  REQUIRE(drained.samples.size() == 2);
  CHECK(drained.samples[0].dropped_by == wire::DroppedBy::default_action);
  CHECK(packet_of(drained.samples[0]).family == 4);
  CHECK(drained.samples[1].dropped_by == wire::DroppedBy::unparsed);
  CHECK(packet_of(drained.samples[1]).family == 0);
  CHECK(wire::get_text(drained.samples[1].list).empty());
}

TEST_CASE("a message holds as many samples as fit, and their time is the wall clock's") {
  Unjudged unjudged;
  Sampler sampler(test_ticks);
  now_ticks = 5000;
  sampler.set({1, UINT32_MAX, 512, 0}, kTicksPerSecond);
  unjudged.burst->drop = 0b111;
  sampler.sample(*unjudged.burst, unjudged.burst->drop, {});
  const auto now_s = static_cast<uint64_t>(time(nullptr));
  const SampleClock clock(now_ticks + 90 * kTicksPerSecond, kTicksPerSecond);
  std::vector<std::byte> body(sizeof(wire::SamplesBody));
  const size_t two = body.size() + 2 * wire::sample_message_bytes(3);
  CHECK(append_samples(sampler, clock, two, body) == 2);
  CHECK(body.size() == two);
  CHECK(sampler.ring().size() == 1);
  wire::SamplesBody head = {.n_samples = 2};
  memcpy(body.data(), &head, sizeof head);
  wire::Message message;
  message.body = body;
  const std::optional<wire::Samples> samples = wire::samples_from(message);
  REQUIRE(samples);
  REQUIRE(samples->frames.size() == 2);
  CHECK(samples->frames[1].bytes.size() == 2);
  CHECK(samples->frames[1].sample.dropped_by == wire::DroppedBy::no_snapshot);
  CHECK(samples->frames[1].sample.time_unix_ns / 1'000'000'000 + 90 - now_s <= 100);
}
