// Samples of what XDP drops, from the program to the answer: who dropped the frame, the share, the limits, and that
// every sample is accounted for. Exit code 77, with the reason, where programs cannot be loaded (plane.h).
#include <sched.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <string>

#include "control/policy/model/packet.h"
#include "control/tell/answer/text.h"
#include "filter/format/packet.h"
#include "filter/format/residual.h"
#include "filter/frame/tunnel.h"
#include "tests/unit/bpf/plane.h"
#include "tests/unit/filter/frame/random_frames.h"

using namespace weir;
using namespace weir::xdp;

namespace {

using Bytes = std::basic_string<uint8_t>;

wire::Message publication_of(const std::string& policy_text, uint64_t number) {
  Diagnostics diagnostics;
  const auto policy = control::parse_policy("test.yaml", "version: 1\n" + policy_text, diagnostics);
  if (!policy) FAIL(format(diagnostics));
  auto result = control::compile(*policy, {kEpoch, number});
  if (!result) FAIL(result.error());
  return message_of(std::move(*result));
}

Bytes ethernet(const Bytes& payload, uint16_t type = 0x0800) {
  Bytes frame(12, 2);
  frame += {static_cast<uint8_t>(type >> 8), static_cast<uint8_t>(type)};
  frame += payload;
  return frame;
}

// 198.18.0.source -> 192.0.2.1
Bytes ipv4(uint8_t source, uint8_t protocol, const Bytes& payload) {
  Bytes packet = {
      0x45, 0, 0, static_cast<uint8_t>(20 + payload.size()), 0, 0, 0, 0, 64, protocol, 0, 0, 198, 18, 0, source, 192,
      0,    2, 1};
  packet += payload;
  return packet;
}

Bytes udp(size_t more = 26) {
  Bytes datagram = {0x9c, 0x40, 0, 53, 0, static_cast<uint8_t>(8 + more), 0, 0};  // port 40000 to 53
  datagram.resize(8 + more, 0xab);
  return datagram;
}

Bytes plain(uint8_t source) {
  return ethernet(ipv4(source, 17, udp()));
}

bool runs(const Plane& plane, const Bytes& frame, int times = 1) {
  LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame.data(), .data_size_in = static_cast<uint32_t>(frame.size()),
              .repeat = times);
  REQUIRE(bpf_prog_test_run_opts(plane.enforcer->program_fd(), &run) == 0);
  return run.retval == XDP_DROP;
}

wire::Samples ask(const Plane& plane, const wire::SamplingBody& wanted) {
  Result<std::vector<std::byte>> body = plane.enforcer->samples(wanted);
  if (!body) FAIL(body.error());
  CHECK(body->size() <= wire::kMaxMessageBytes - sizeof(wire::Header));
  wire::Message message;
  message.body = std::move(*body);
  const std::optional<wire::Samples> samples = wire::samples_from(message);
  REQUIRE(samples);
  const wire::SamplesBody& head = samples->body;
  CHECK(head.sampled == head.limited + head.lost + head.told + head.waiting);
  return *samples;
}

weir_packet packet_of(const wire::Sample& sample) {
  weir_packet packet;
  memcpy(&packet, sample.packet, sizeof packet);
  return packet;
}

uint32_t source_of(const wire::Sample& sample) {
  return __builtin_bswap32(static_cast<uint32_t>(packet_of(sample).address[WEIR_SIDE_SOURCE][0]));
}

constexpr wire::SamplingBody kAll = {1, UINT32_MAX, 512, 0};
constexpr uint32_t kNet = 198u << 24 | 18u << 16;

}  // namespace

TEST_CASE("a sample tells who dropped the frame, and the layer that did") {
  const Plane plane;
  const wire::Message policy = publication_of(R"(
policy: {default: pass, unparsed: drop, tunnels: [ipip]}
lists:
  - {name: allow, action: pass, entries: [198.18.0.100]}
  - {name: first, action: drop, entries: [198.18.0.1, 198.18.0.3]}
  - {name: second, action: drop, entries: [198.18.0.2, 198.18.0.3]}
)",
                                              7);
  REQUIRE(plane.enforcer->publish(policy).ok == 1);
  CHECK(ask(plane, kAll).frames.empty());
  CHECK_FALSE(runs(plane, plain(9)));
  struct Row {
    Bytes frame;
    std::string list;
    wire::DroppedBy by;
    uint8_t layer;
    uint32_t source;  // 0: no packet is told
  };
  const Bytes vlan = [] {
    Bytes tagged = {0, 7, 8, 0};
    tagged += ipv4(2, 17, udp());
    return ethernet(tagged, 0x8100);
  }();
  const std::vector<Row> rows = {
      {plain(1), "first", wire::DroppedBy::list, 0, kNet + 1},
      {plain(3), "first", wire::DroppedBy::list, 0, kNet + 3},  // by both
      {vlan, "second", wire::DroppedBy::list, 0, kNet + 2},
      {ethernet(ipv4(9, 4, ipv4(2, 17, udp()))), "second", wire::DroppedBy::list, 1, kNet + 2},
      {ethernet(ipv4(9, 4, ipv4(100, 4, ipv4(1, 4, ipv4(2, 17, udp(4)))))), "first", wire::DroppedBy::list, 2,
       kNet + 1},
      {ethernet(ipv4(1, 4, ipv4(2, 17, udp()))), "first", wire::DroppedBy::list, 0, kNet + 1},
      {plain(2), "second", wire::DroppedBy::list, 0, kNet + 2},  // nothing is left of the tunnels before it
      {ethernet(Bytes(20, 0x11)), "", wire::DroppedBy::unparsed, 0, 0},
  };
  for (const Row& row : rows) CHECK(runs(plane, row.frame));
  const auto now = static_cast<uint64_t>(time(nullptr));
  const wire::Samples told = ask(plane, kAll);
  REQUIRE(told.frames.size() == rows.size());
  for (size_t i = 0; i < rows.size(); i++) {
    CAPTURE(i);
    const wire::Sample& sample = told.frames[i].sample;
    CHECK(sample.generation == wire::Generation{kEpoch, 7});
    CHECK(sample.dropped_by == rows[i].by);
    CHECK(wire::get_text(sample.list) == rows[i].list);
    CHECK(sample.layer == rows[i].layer);
    CHECK(sample.frame_bytes == rows[i].frame.size());
    CHECK(sample.one_in == 1);
    CHECK(now - sample.time_unix_ns / 1'000'000'000 <= 60);
    CHECK(now - sample.now_unix_s <= 60);
    const auto* bytes = reinterpret_cast<const uint8_t*>(told.frames[i].bytes.data());
    CHECK(Bytes(bytes, bytes + told.frames[i].bytes.size()) == rows[i].frame);
    CHECK(packet_of(sample).family == (rows[i].source != 0 ? 4 : 0));
    CHECK(source_of(sample) == rows[i].source);
    CHECK(packet_of(sample).icmp_type == 0);  // what a packet does not have is 0
  }
}

TEST_CASE("what the default and no_snapshot drop has its reason, also where gates decide") {
  const Plane plane;
  plane.enforcer->drop_without_snapshot(true);
  ask(plane, {1, 100, 20, 0});
  CHECK(runs(plane, plain(5)));
  wire::Samples told = ask(plane, {1, 100, 20, 0});
  REQUIRE(told.frames.size() == 1);
  CHECK(told.frames[0].sample.dropped_by == wire::DroppedBy::no_snapshot);
  CHECK(told.frames[0].sample.generation == wire::Generation{});
  CHECK(told.frames[0].sample.now_unix_s == 0);
  CHECK(packet_of(told.frames[0].sample).family == 0);
  CHECK(told.frames[0].bytes.size() == 20);

  const wire::Message policy = publication_of(
      "policy: {default: drop}\nlists:\n  - {name: allow, action: pass, entries: [198.18.0.1, 10.0.0.0/8]}\n", 1);
  REQUIRE(plane.enforcer->publish(policy).ok == 1);
  CHECK_FALSE(runs(plane, plain(1)));
  CHECK(runs(plane, plain(5)));
  told = ask(plane, {1, 100, 0, 0});
  REQUIRE(told.frames.size() == 1);
  const wire::Sample& sample = told.frames[0].sample;
  CHECK(sample.dropped_by == wire::DroppedBy::default_action);
  CHECK(wire::get_text(sample.list).empty());
  CHECK(source_of(sample) == kNet + 5);
  CHECK(packet_of(sample).port[1] == __builtin_bswap16(53));
  CHECK(told.frames[0].bytes.size() == 20);  // as was wanted when it was dropped
}

TEST_CASE("generation and list are those of the snapshot that judged the frame") {
  const Plane plane;
  REQUIRE(plane.enforcer->publish(publication(list("a", "198.18.0.1") + list("b", "198.18.0.2"), 1)).ok == 1);
  REQUIRE(plane.enforcer->publish(publication(list("b", "198.18.0.1") + list("a", "198.18.0.2"), 2)).ok == 1);
  ask(plane, kAll);
  CHECK(runs(plane, plain(1)));
  CHECK(runs(plane, plain(2)));
  const wire::Samples told = ask(plane, kAll);
  REQUIRE(told.frames.size() == 2);
  CHECK(told.frames[0].sample.generation == wire::Generation{kEpoch, 2});
  CHECK(wire::get_text(told.frames[0].sample.list) == "b");
  CHECK(wire::get_text(told.frames[1].sample.list) == "a");
}

TEST_CASE("the text of what XDP parses reads back as the same packet, which is the data plane's") {
  constexpr uint8_t kNoFields = WEIR_INCOMPLETE | WEIR_OPEN_END;
  constexpr size_t kShortest = 14, kLongest = 2048;  // of frames that can be run through a program
  const Plane plane;
  const wire::Message policy = publication_of(
      "policy: {default: drop, unparsed: drop}\nlists:\n  - {name: allow, action: pass, entries: [203.0.113.1]}\n", 1);
  REQUIRE(plane.enforcer->publish(policy).ok == 1);
  ask(plane, kAll);
  test::Random random(1);
  size_t packets = 0;
  for (int n = 0; n < 40'000; n++) {
    const test::Bytes bytes = test::random_frame(random);
    if (bytes.size() < kShortest || bytes.size() > kLongest) continue;
    const Bytes frame(bytes.begin(), bytes.end());
    weir_packet parsed = {};
    filter::InnerLayers inner = {};
    const bool is_ip = filter::parse_layers(frame.data(), static_cast<uint32_t>(frame.size()), 0, parsed, inner) ==
                       filter::Outcome::ip;
    if (!runs(plane, frame)) continue;  // ARP, say
    const wire::Samples told = ask(plane, kAll);
    REQUIRE(told.frames.size() == 1);
    weir_packet packet = packet_of(told.frames[0].sample);
    CAPTURE(n);
    REQUIRE((packet.family != 0) == is_ip);
    if (!is_ip) continue;
    for (weir_packet* one : {&parsed, &packet}) {
      weir_clear_absent(one);
      one->has = static_cast<uint8_t>(one->has & ~kNoFields);
    }
    INFO(control::packet_text(parsed));
    REQUIRE(memcmp(&packet, &parsed, sizeof packet) == 0);
    const std::string text = control::packet_text(packet);
    INFO(text);
    const Result<weir_packet> again = control::parse_packet(text);
    if (!again) FAIL(again.error());
    REQUIRE(memcmp(&*again, &packet, sizeof packet) == 0);
    packets++;
  }
  CHECK(packets > 10'000);
}

TEST_CASE("one in N is exact, at random places; off samples nothing") {
  const Plane plane;
  REQUIRE(plane.enforcer->publish(publication(list("a", "198.18.0.0/24"), 1)).ok == 1);
  CHECK(runs(plane, plain(1), 50));
  CHECK(ask(plane, {8, UINT32_MAX, 64, 0}).body.sampled == 0);
  std::map<uint32_t, uint64_t> of_place;
  uint64_t sampled = 0;
  for (int round = 0; round < 500; round++) {
    for (uint8_t place = 0; place < 8; place++) CHECK(runs(plane, plain(place)));
    if (round % 50 == 49) {
      const wire::Samples told = ask(plane, {8, UINT32_MAX, 64, 0});
      CHECK(told.body.waiting == 0);
      sampled = told.body.sampled;
      for (const wire::SampledFrame& frame : told.frames) {
        of_place[source_of(frame.sample) - kNet]++;
        CHECK(frame.sample.one_in == 8);
      }
    }
  }
  CHECK(sampled == 500);
  for (uint32_t place = 0; place < 8; place++) CHECK(std::abs(static_cast<double>(of_place[place]) - 62.5) < 45);
  ask(plane, {0, UINT32_MAX, 64, 0});
  CHECK(runs(plane, plain(1), 50));
  CHECK(ask(plane, {0, UINT32_MAX, 64, 0}).body.sampled == 500);
}

TEST_CASE("a list that floods takes no place of another") {
  const Plane plane;
  REQUIRE(plane.enforcer->publish(publication(list("a", "198.18.0.1") + list("b", "198.18.0.2"), 1)).ok == 1);
  const wire::SamplingBody wanted = {1, 5, 64, 0};
  ask(plane, wanted);
  for (int i = 0; i < 3; i++) {  // the second may turn over
    CHECK(runs(plane, plain(1), 40));
    CHECK(runs(plane, plain(2)));
  }
  const wire::Samples told = ask(plane, wanted);
  std::map<std::string, int> of;
  for (const wire::SampledFrame& frame : told.frames) of[wire::get_text(frame.sample.list)]++;
  CHECK(of["a"] >= 5);
  CHECK(of["a"] <= 15);
  CHECK(of["b"] == 3);
  CHECK(told.body.sampled == 123);
  CHECK(told.body.limited == told.body.sampled - told.frames.size());
  CHECK(told.body.lost == 0);
}

TEST_CASE("a full ring loses samples and counts them, and a message holds as many as fit") {
  const std::string folder = own_folder();
  constexpr int kFlood = 5000;
  uint64_t lost = 0;
  {
    auto opened = Enforcer::open({{}, Attach::any, folder});
    if (!opened) FAIL(opened.error());
    REQUIRE((*opened)->publish(publication(list("a", "198.18.0.1"), 1)).ok == 1);
    REQUIRE((*opened)->samples(kAll));
    CHECK(drops(**opened, 1, kFlood));
  }
  // Nobody asks; then another enforcer comes.
  const Plane again(folder);
  CHECK(runs(again, plain(1), 10));  // not sampled: nobody has asked this one
  size_t told = 0, answers = 0;
  while (true) {
    const wire::Samples some = ask(again, kAll);
    told += some.frames.size();
    answers++;
    lost = some.body.lost;
    CHECK(some.body.told == told);
    CHECK(some.body.sampled == kFlood);
    if (some.body.waiting == 0) break;
    CHECK(some.frames.size() > 100);
  }
  CHECK(lost > 0);
  CHECK(told + lost == kFlood);
  CHECK(answers > 2);
  CHECK(runs(again, plain(1)));
  CHECK(ask(again, kAll).frames.size() == 1);
}

namespace {

wire::Traffic ask_traffic(const Plane& plane, uint32_t per_second) {
  Result<std::vector<std::byte>> body = plane.enforcer->traffic({per_second, 0});
  if (!body) FAIL(body.error());
  CHECK(body->size() <= wire::kMaxMessageBytes - sizeof(wire::Header));
  wire::Message message;
  message.body = std::move(*body);
  const std::optional<wire::Traffic> traffic = wire::traffic_from(message);
  REQUIRE(traffic);
  const wire::TrafficBody& head = traffic->body;
  CHECK(head.sampled == head.lost + head.told + head.waiting);
  return *traffic;
}

uint32_t source_of(const wire::SampledTraffic& sampled, uint32_t layer) {
  weir_packet packet;
  memcpy(&packet, sampled.packets[layer].data(), sizeof packet);
  return __builtin_bswap32(static_cast<uint32_t>(packet.address[WEIR_SIDE_SOURCE][0]));
}

constexpr const char* kTunnelPolicy = R"(
policy: {default: pass, unparsed: drop, tunnels: [ipip]}
lists:
  - {name: allow, action: pass, entries: [198.18.0.100]}
  - {name: first, action: drop, entries: [198.18.0.1]}
)";

}  // namespace

TEST_CASE("traffic is sampled whatever becomes of it, with the packets of all layers") {
  const Plane plane;
  REQUIRE(plane.enforcer->publish(publication_of(kTunnelPolicy, 1)).ok == 1);
  CHECK_FALSE(runs(plane, plain(9)));
  CHECK(ask_traffic(plane, 1'000'000).samples.empty());
  struct Row {
    Bytes frame;
    wire::FrameKind kind;
    bool dropped;
    std::vector<uint32_t> sources;
  };
  const std::vector<Row> rows = {
      {plain(9), wire::FrameKind::packets, false, {9}},  // decided by gates
      {plain(1), wire::FrameKind::packets, true, {1}},
      {plain(100), wire::FrameKind::packets, false, {100}},
      {ethernet(ipv4(9, 4, ipv4(8, 17, udp()))), wire::FrameKind::packets, false, {9, 8}},
      {ethernet(ipv4(9, 4, ipv4(1, 4, ipv4(7, 17, udp())))), wire::FrameKind::packets, true, {9, 1, 7}},
      {ethernet(Bytes(20, 0x11)), wire::FrameKind::malformed, true, {}},
      {ethernet(Bytes(20, 0x11), 0x0806), wire::FrameKind::not_ip, false, {}},
      {plain(9), wire::FrameKind::packets, false, {9}},
  };
  for (const Row& row : rows) CHECK(runs(plane, row.frame) == row.dropped);
  const wire::Traffic told = ask_traffic(plane, 1'000'000);
  REQUIRE(told.samples.size() == rows.size());
  for (size_t i = 0; i < rows.size(); i++) {
    CAPTURE(i);
    const wire::TrafficSample& sample = told.samples[i].sample;
    CHECK(sample.weight == 1);
    CHECK(sample.kind == rows[i].kind);
    CHECK((sample.dropped != 0) == rows[i].dropped);
    CHECK(sample.frame_bytes == rows[i].frame.size());
    CHECK(std::abs(time(nullptr) - static_cast<int64_t>(sample.time_unix_ns / 1'000'000'000)) <= 60);
    REQUIRE(sample.layers == rows[i].sources.size());
    for (uint32_t layer = 0; layer < sample.layers; layer++) {
      CHECK(source_of(told.samples[i], layer) == kNet + rows[i].sources[layer]);
    }
  }
  ask_traffic(plane, 0);
  CHECK(runs(plane, plain(1)));
  CHECK(ask_traffic(plane, 0).samples.empty());
}

TEST_CASE("weights stand for all frames, also when nobody asks for long") {
  const Plane plane;
  REQUIRE(plane.enforcer->publish(publication_of(kTunnelPolicy, 1)).ok == 1);
  ask_traffic(plane, 1'000'000);  // one in one, until the ring fills up
  constexpr uint64_t kRounds = 300'000;
  CHECK_FALSE(runs(plane, plain(9), static_cast<int>(kRounds)));
  for (int i = 0; i < 1000; i++) CHECK(runs(plane, plain(1)));
  uint64_t passed = 0, dropped = 0, samples = 0;
  uint32_t heaviest = 0;
  while (true) {
    const wire::Traffic told = ask_traffic(plane, 1'000'000);
    CHECK(told.body.lost == 0);
    for (const wire::SampledTraffic& sampled : told.samples) {
      (sampled.sample.dropped != 0 ? dropped : passed) += sampled.sample.weight;
      heaviest = std::max(heaviest, sampled.sample.weight);
      samples++;
    }
    if (told.body.waiting == 0) break;
    CHECK(told.samples.size() > 100);
  }
  CHECK(samples < 20'000);
  CHECK(heaviest > 4);
  // The run that is under way stands in no sample yet, or has been counted whole.
  CHECK(std::abs(static_cast<double>(passed + dropped) - (kRounds + 1000)) <= 2.0 * heaviest);
  CHECK(std::abs(static_cast<double>(passed) - kRounds) <= 8.0 * heaviest + 1000);
}

TEST_CASE("drops and traffic are sampled side by side, each with its own share") {
  const Plane plane;
  REQUIRE(plane.enforcer->publish(publication_of(kTunnelPolicy, 1)).ok == 1);
  ask_traffic(plane, 1'000'000);
  ask(plane, {10, UINT32_MAX, 64, 0});
  for (int i = 0; i < 500; i++) {
    CHECK(runs(plane, plain(1)));
    CHECK_FALSE(runs(plane, plain(9)));
  }
  CHECK(ask(plane, {10, UINT32_MAX, 64, 0}).frames.size() == 50);
  CHECK(ask_traffic(plane, 1'000'000).samples.size() == 1000);
  ask(plane, {0, 0, 0, 0});  // the other goes on
  CHECK_FALSE(runs(plane, plain(9), 10));
  CHECK(ask_traffic(plane, 1'000'000).body.sampled > 1000);
}

int before_tests() {
  // Each processor has its own runs and limits: one is enough here.
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  return can_load_programs();
}
