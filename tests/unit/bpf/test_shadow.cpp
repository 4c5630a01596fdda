// Shadows on XDP: what a candidate would decide otherwise is counted and sampled, beside whatever is enforced, and
// nothing else changes. Frames are run through the programs (BPF_PROG_TEST_RUN). Exit code 77, with the reason, where
// programs cannot be loaded (plane.h).
#include <fcntl.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <string>

#include "common/digest.h"
#include "filter/format/packet.h"
#include "tests/unit/bpf/frames.h"

using namespace weir;
using namespace weir::xdp;

namespace {

control::Compiled compiled_policy(const std::string& text, uint64_t number) {
  Diagnostics diagnostics;
  const auto policy = control::parse_policy("test.yaml", "version: 1\n" + text, diagnostics);
  if (!policy) FAIL(format(diagnostics));
  auto result = control::compile(*policy, {kEpoch, number});
  if (!result) FAIL(result.error());
  return std::move(*result);
}

void enforce(const Plane& plane, const std::string& text, uint64_t number) {
  const wire::PublishedBody answer = plane.enforcer->publish(message_of(compiled_policy(text, number)));
  INFO(answer.reason);
  REQUIRE(answer.ok == 1);
}

wire::Message begin_of(control::Compiled candidate, uint32_t one_in = 1) {
  wire::ShadowRequest request;
  request.action = wire::ShadowAction::begin;
  request.one_in = one_in;
  request.candidate = candidate.generation;
  std::copy(candidate.digest.begin(), candidate.digest.end(), request.digest);
  request.size_bytes = candidate.size_bytes;
  wire::Message message;
  message.body.assign(wire::bytes_of(request).begin(), wire::bytes_of(request).end());
  message.fd = std::move(candidate.snapshot);
  return message;
}

// As it goes over a socket.
wire::Shadow told(Result<wire::Shadow> shadow) {
  if (!shadow) FAIL(shadow.error());
  wire::Message message;
  message.body = wire::encode_shadow(*shadow);
  std::optional<wire::Shadow> read = wire::shadow_from(message);
  REQUIRE(read);
  return std::move(*read);
}

wire::Shadow begin(const Plane& plane, const std::string& text, uint64_t number, uint32_t one_in = 1) {
  return told(plane.enforcer->shadow(begin_of(compiled_policy(text, number), one_in)));
}

wire::Shadow end(const Plane& plane) {
  wire::ShadowRequest request;
  request.action = wire::ShadowAction::end;
  wire::Message message;
  message.body.assign(wire::bytes_of(request).begin(), wire::bytes_of(request).end());
  return told(plane.enforcer->shadow(message));
}

wire::Shadow ask(const Plane& plane) {
  return told(plane.enforcer->shadow());
}

using Bytes = std::basic_string<uint8_t>;

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
  Bytes datagram = {0x9c, 0x40, 0, 53, 0, static_cast<uint8_t>(8 + more), 0, 0};
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

uint32_t source_of(const wire::ShadowSample& sample) {
  weir_packet packet;
  memcpy(&packet, sample.packet, sizeof packet);
  return __builtin_bswap32(static_cast<uint32_t>(packet.address[WEIR_SIDE_SOURCE][0]));
}

const wire::ShadowList* row_of(const wire::Shadow& shadow, const std::string& name, wire::DroppedBy by) {
  for (const wire::ShadowList& row : shadow.lists) {
    if (wire::get_text(row.name) == name && row.by == static_cast<uint32_t>(by)) return &row;
  }
  return nullptr;
}

constexpr uint32_t kNet = 198u << 24 | 18u << 16;
constexpr auto kList = wire::DroppedBy::list, kDefault = wire::DroppedBy::default_action,
               kUnparsed = wire::DroppedBy::unparsed;

}  // namespace

TEST_CASE("what a candidate decides otherwise is counted by what drops, and sampled, and nothing else changes") {
  const Plane plane;
  enforce(plane, R"(
policy: {default: pass, unparsed: drop, tunnels: [ipip]}
lists:
  - {name: allow, action: pass, entries: [198.18.0.100, 198.18.0.4]}
  - {name: old, action: drop, entries: [198.18.0.1, 198.18.0.2]}
)",
          7);
  const wire::Shadow begun = begin(plane, R"(
policy: {default: pass, unparsed: pass, tunnels: [ipip]}
lists:
  - {name: watch, action: drop, mode: monitor, entries: [198.18.0.0/24]}
  - {name: fresh, action: drop, entries: [198.18.0.2, 198.18.0.3, 198.18.0.4]}
  - {name: allow, action: pass, entries: [198.18.0.1]}
)",
                                   8);
  INFO(begun.body.reason);
  REQUIRE(begun.body.ok == 1);
  CHECK(begun.body.on == 1);
  CHECK(begun.body.candidate == wire::Generation{kEpoch, 8});
  CHECK(begun.body.beside == wire::Generation{kEpoch, 7});
  CHECK(plane.enforcer->status().shadow == wire::Generation{kEpoch, 8});

  struct Row {
    Bytes frame;
    bool drops;
    bool differs;
    std::string running, candidate;  // lists that are credited
    wire::DroppedBy by_running, by_candidate;
    uint8_t running_layer, candidate_layer;
    uint32_t source;  // 0: no packet is told
  };
  const Bytes vlan = [] {
    Bytes tagged = {0, 7, 8, 0};
    tagged += ipv4(3, 17, udp());
    return ethernet(tagged, 0x8100);
  }();
  const std::vector<Row> rows = {
      {plain(9), false, false, "", "", kDefault, kDefault, 0, 0, 0},
      {plain(1), true, true, "old", "allow", kList, kList, 0, 0, kNet + 1},
      {plain(2), true, false, "old", "fresh", kList, kList, 0, 0, 0},
      {plain(3), false, true, "", "fresh", kDefault, kList, 0, 0, kNet + 3},
      {vlan, false, true, "", "fresh", kDefault, kList, 0, 0, kNet + 3},
      {plain(4), false, true, "allow", "fresh", kList, kList, 0, 0, kNet + 4},
      // In tunnels the outermost layer that drops is credited, or the outermost one that a pass list has.
      {ethernet(ipv4(9, 4, ipv4(3, 17, udp()))), false, true, "", "fresh", kDefault, kList, 0, 1, kNet + 3},
      {ethernet(ipv4(9, 4, ipv4(1, 17, udp()))), true, true, "old", "allow", kList, kList, 1, 1, kNet + 1},
      {ethernet(ipv4(9, 4, ipv4(9, 4, ipv4(4, 4, ipv4(100, 17, udp(4)))))), false, true, "allow", "fresh", kList, kList,
       2, 2, kNet + 4},
      {ethernet(Bytes(20, 0x11)), true, true, "", "", kUnparsed, kUnparsed, 0, 0, 0},
      {ethernet(Bytes(20, 0x11), 0x88cc), false, false, "", "", kDefault, kDefault, 0, 0, 0},
      {plain(1), true, true, "old", "allow", kList, kList, 0, 0, kNet + 1},  // nothing is left of the tunnels
  };
  uint64_t bytes = 0, dropped[2] = {}, passed[2] = {};
  std::vector<const Row*> differing;
  for (const Row& row : rows) {
    CAPTURE(&row - rows.data());
    CHECK(runs(plane, row.frame) == row.drops);
    bytes += row.frame.size();
    if (!row.differs) continue;
    differing.push_back(&row);
    uint64_t* counts = row.drops ? passed : dropped;
    counts[0]++;
    counts[1] += row.frame.size();
  }
  const wire::Shadow shadow = ask(plane);
  const wire::ShadowBody& body = shadow.body;
  CHECK(body.packets == rows.size());
  CHECK(body.bytes == bytes);
  CHECK(body.newly_dropped == dropped[0]);
  CHECK(body.newly_dropped_bytes == dropped[1]);
  CHECK(body.newly_passed == passed[0]);
  CHECK(body.newly_passed_bytes == passed[1]);
  CHECK(body.cycles > 0);
  CHECK(body.tsc_hz == 0);
  CHECK(body.lost == 0);
  const wire::ShadowList *fresh = row_of(shadow, "fresh", kList), *old = row_of(shadow, "old", kList),
                         *unparsed = row_of(shadow, "", kUnparsed);
  CHECK(shadow.lists.size() == 3);
  REQUIRE((fresh && old && unparsed));
  CHECK((fresh->newly_dropped == dropped[0] && fresh->newly_passed == 0));
  CHECK((old->newly_passed == 3 && old->newly_dropped == 0));
  CHECK(unparsed->newly_passed == 1);

  REQUIRE(shadow.samples.size() == differing.size());
  const auto now = static_cast<int64_t>(time(nullptr));
  for (size_t i = 0; i < differing.size(); i++) {
    CAPTURE(i);
    const wire::ShadowSample& sample = shadow.samples[i];
    const Row& row = *differing[i];
    CHECK(sample.running == wire::Generation{kEpoch, 7});
    CHECK(std::abs(now - static_cast<int64_t>(sample.time_unix_ns / 1'000'000'000)) <= 60);
    CHECK(sample.frame_bytes == row.frame.size());
    CHECK((sample.by_running.dropped == 1) == row.drops);
    CHECK((sample.by_candidate.dropped == 1) != row.drops);
    CHECK(wire::get_text(sample.by_running.list) == row.running);
    CHECK(wire::get_text(sample.by_candidate.list) == row.candidate);
    CHECK(sample.by_running.by == row.by_running);
    CHECK(sample.by_candidate.by == row.by_candidate);
    CHECK(sample.by_running.layer == row.running_layer);
    CHECK(sample.by_candidate.layer == row.candidate_layer);
    CHECK(source_of(sample) == row.source);
  }
  CHECK(ask(plane).samples.empty());
  CHECK(ask(plane).body.sampled == differing.size());

  // Counters are those of what runs.
  const Result<wire::Stats> stats = plane.enforcer->stats();
  REQUIRE(stats);
  CHECK(stats->body.totals.packets == rows.size());
  CHECK(matched_by(*plane.enforcer, "old") == 4);
  CHECK(matched_by(*plane.enforcer, "fresh") == UINT64_MAX);

  const wire::Shadow ended = end(plane);
  CHECK(ended.body.on == 0);
  CHECK(ended.body.packets == rows.size());
  CHECK(ended.lists.size() == 3);
  CHECK(plane.enforcer->status().shadow == wire::Generation{});
  CHECK(runs(plane, plain(1)));
  CHECK(ask(plane).body.packets == rows.size());
}

TEST_CASE("defaults that differ are counted for the default, also where gates decide") {
  const Plane plane;
  const std::string lists = "lists:\n  - {name: a, action: drop, entries: [198.18.0.1]}\n";
  enforce(plane, "policy: {default: pass}\n" + lists, 1);
  REQUIRE(begin(plane, "policy: {default: drop}\n" + lists, 2).body.ok == 1);
  CHECK_FALSE(runs(plane, plain(5), 10));
  CHECK(runs(plane, plain(1), 10));
  wire::Shadow shadow = ask(plane);
  CHECK(shadow.body.newly_dropped == 10);
  CHECK(shadow.body.newly_passed == 0);
  REQUIRE(row_of(shadow, "", kDefault));
  REQUIRE(shadow.samples.size() == 10);
  CHECK(source_of(shadow.samples[0]) == kNet + 5);

  // The other way around.
  enforce(plane, "policy: {default: drop}\n" + lists, 3);
  REQUIRE(begin(plane, "policy: {default: pass}\n" + lists, 4).body.ok == 1);
  CHECK(runs(plane, plain(5), 10));
  shadow = ask(plane);
  CHECK(shadow.body.packets == 10);
  CHECK(shadow.body.newly_passed == 10);
  REQUIRE(shadow.samples.size() == 10);
  CHECK(source_of(shadow.samples[0]) == kNet + 5);
}

TEST_CASE("a shadow goes on beside publications; lists of what runs keep their counts") {
  const Plane plane;
  enforce(plane, "lists:\n" + list("a", "198.18.0.1") + list("b", "198.18.0.2"), 1);
  REQUIRE(begin(plane, "lists:\n" + list("c", "198.18.0.9"), 2).body.ok == 1);
  CHECK(runs(plane, plain(1), 3));
  CHECK(runs(plane, plain(2), 5));
  enforce(plane, "lists:\n" + list("b", "198.18.0.1") + list("d", "198.18.0.3"), 3);
  CHECK(runs(plane, plain(1), 7));
  CHECK(runs(plane, plain(3), 11));
  CHECK_FALSE(runs(plane, plain(2), 13));
  const wire::Shadow shadow = ask(plane);
  CHECK(shadow.body.on == 1);
  CHECK(shadow.body.packets == 39);
  CHECK(row_of(shadow, "a", kList)->newly_passed == 3);
  CHECK(row_of(shadow, "b", kList)->newly_passed == 12);
  CHECK(row_of(shadow, "d", kList)->newly_passed == 11);
  CHECK(shadow.body.newly_passed == 26);
}

TEST_CASE("both compare `expires` with one time") {
  const Plane plane;
  const std::string lists =
      "lists:\n  - {name: a, action: drop, entries: [{src: 198.18.0.1, expires: 2030-01-01T00:00:00Z}]}\n";
  constexpr uint64_t kExpires = 1893456000;
  enforce(plane, lists, 1);
  plane.enforcer->fix_clock(kExpires - 10);
  REQUIRE(begin(plane, lists, 2).body.ok == 1);
  CHECK(runs(plane, plain(1), 5));
  plane.enforcer->fix_clock(kExpires + 10);
  CHECK_FALSE(runs(plane, plain(1), 5));
  const wire::Shadow shadow = ask(plane);
  CHECK(shadow.body.packets == 10);
  CHECK(shadow.body.newly_dropped + shadow.body.newly_passed == 0);
}

TEST_CASE("one in N is exact, at random places") {
  const Plane plane;
  enforce(plane, "lists:\n" + list("a", "198.18.0.1"), 1);
  REQUIRE(begin(plane, "lists:\n" + list("a", "198.18.0.0/24"), 2, 8).body.ok == 1);
  std::map<uint32_t, int> of_place;
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; round++) {
    for (uint8_t place = 0; place < 8; place++) CHECK(runs(plane, plain(place + 2u)) == false);
    if (round % 50 != 49) continue;
    for (const wire::ShadowSample& sample : ask(plane).samples) of_place[source_of(sample) - kNet - 2]++;
  }
  const wire::Shadow shadow = ask(plane);
  CHECK(shadow.body.packets == kRounds);
  CHECK(shadow.body.newly_dropped == kRounds);
  for (uint32_t place = 0; place < 8; place++) CHECK(std::abs(of_place[place] - 50) < 40);
}

TEST_CASE("every frame that differs is sampled, or lost and counted") {
  const Plane plane;
  enforce(plane, "lists:\n" + list("a", "198.18.0.1"), 1);
  REQUIRE(begin(plane, "lists:\n" + list("a", "198.18.0.0/24"), 2).body.ok == 1);
  constexpr int kFrames = 5000;
  CHECK_FALSE(runs(plane, plain(2), kFrames));
  wire::Shadow shadow = ask(plane);
  size_t samples = shadow.samples.size();
  CHECK(samples > 64);
  while (!shadow.samples.empty()) {
    shadow = ask(plane);
    samples += shadow.samples.size();
  }
  CHECK(shadow.body.newly_dropped == kFrames);
  CHECK(shadow.body.sampled == samples);
  CHECK(shadow.body.lost > 0);
  CHECK(samples + shadow.body.lost == kFrames);
}

TEST_CASE("what is bypassed is judged by neither") {
  const Plane plane;
  enforce(plane, "lists:\n" + list("a", "198.18.0.1"), 1);
  REQUIRE(begin(plane, "lists:\n" + list("b", "198.18.0.2"), 2).body.ok == 1);
  plane.enforcer->bypass(true);
  CHECK_FALSE(runs(plane, plain(1), 5));
  CHECK(ask(plane).body.packets == 0);
  plane.enforcer->bypass(false);
  CHECK(runs(plane, plain(1), 5));
  CHECK(ask(plane).body.packets == 5);
}

TEST_CASE("samples of drops and traffic are taken beside a shadow") {
  const Plane plane;
  enforce(plane, "lists:\n" + list("a", "198.18.0.1"), 1);
  REQUIRE(begin(plane, "lists:\n" + list("b", "198.18.0.2"), 2).body.ok == 1);
  const wire::SamplingBody wanted = {1, UINT32_MAX, 64, 0};
  REQUIRE(plane.enforcer->samples(wanted));
  CHECK(runs(plane, plain(1), 4));
  CHECK_FALSE(runs(plane, plain(2), 4));
  wire::Message message;
  message.body = std::move(*plane.enforcer->samples(wanted));
  const std::optional<wire::Samples> samples = wire::samples_from(message);
  REQUIRE(samples);
  CHECK(samples->frames.size() == 4);
  CHECK(ask(plane).body.packets == 8);
}

TEST_CASE("a candidate that is published is enforced, and its shadow ends") {
  const Plane plane;
  enforce(plane, "lists:\n" + list("a", "198.18.0.1"), 1);
  control::Compiled candidate = compiled_policy("lists:\n" + list("b", "198.18.0.2"), 2);
  control::Compiled same;
  same.snapshot.reset(dup(candidate.snapshot.get()));
  same.generation = candidate.generation;
  same.digest = candidate.digest;
  same.size_bytes = candidate.size_bytes;
  const wire::Shadow begun = told(plane.enforcer->shadow(begin_of(std::move(candidate))));
  REQUIRE(begun.body.ok == 1);
  CHECK(runs(plane, plain(1)));
  const wire::PublishedBody published = plane.enforcer->publish(message_of(std::move(same)));
  REQUIRE(published.ok == 1);
  const wire::Shadow shadow = ask(plane);
  CHECK(shadow.body.on == 0);
  CHECK(wire::get_text(shadow.body.reason) == "it is enforced now");
  CHECK(shadow.body.newly_passed == 1);
  const wire::StatusBody status = plane.enforcer->status();
  CHECK(status.shadow == wire::Generation{});
  CHECK(std::equal(std::begin(status.digest), std::end(status.digest), begun.body.digest));
  CHECK(runs(plane, plain(2)));
  CHECK_FALSE(runs(plane, plain(1)));
}

TEST_CASE("what is wrong with a candidate is told, and what judged before goes on or ends by name") {
  const Plane plane;
  const std::string lists = "lists:\n" + list("a", "198.18.0.1");
  wire::Shadow shadow = begin(plane, lists, 1);
  CHECK(shadow.body.ok == 0);
  CHECK(wire::get_text(shadow.body.reason).starts_with("nothing is enforced yet"));
  enforce(plane, lists, 1);

  shadow = begin(plane, lists, 2, 0);
  CHECK(shadow.body.failed_step == wire::Step::receive);
  shadow = begin(plane, lists, 2, wire::kMostShadowOneIn + 1);
  CHECK(shadow.body.failed_step == wire::Step::receive);

  control::Compiled other = compiled_policy(lists, 2);
  other.digest[0]++;
  shadow = told(plane.enforcer->shadow(begin_of(std::move(other))));
  CHECK(shadow.body.failed_step == wire::Step::validate);
  CHECK(shadow.body.on == 0);

  other = compiled_policy(lists, 2);
  other.generation.number = 3;
  shadow = told(plane.enforcer->shadow(begin_of(std::move(other))));
  CHECK(shadow.body.failed_step == wire::Step::validate);

  wire::Message without = begin_of(compiled_policy(lists, 2));
  without.fd.reset();
  shadow = told(plane.enforcer->shadow(without));
  CHECK(shadow.body.failed_step == wire::Step::receive);
  without.body.pop_back();
  shadow = told(plane.enforcer->shadow(without));
  CHECK(shadow.body.failed_step == wire::Step::receive);
  CHECK(plane.enforcer->status().shadow == wire::Generation{});
  CHECK(runs(plane, plain(1)));
  CHECK_FALSE(runs(plane, plain(2)));
}

int before_tests() {
  return can_load_programs();
}
