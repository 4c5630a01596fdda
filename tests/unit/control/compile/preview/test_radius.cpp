#include <random>

#include "common/files.h"
#include "control/compile/compile.h"
#include "control/compile/preview/radius.h"
#include "control/enforce/publish/open_snapshot.h"
#include "control/policy/model/packet.h"
#include "tests/unit/control/support/support.h"

// What would become of the traffic: shares, whom they are credited to, and whether the intervals hold.
using namespace weir;
using namespace weir::control;

namespace {

constexpr uint64_t kNow = 1'700'000'000;

struct Compiled1 {
  explicit Compiled1(const std::string& text) {
    Diagnostics diagnostics;
    const auto policy = parse_policy("weir.yaml", "version: 1\n" + text, diagnostics);
    INFO(format(diagnostics));
    REQUIRE(policy);
    auto compiled = compile(*policy, {1, 1});
    REQUIRE(compiled);
    auto publication = std::make_shared<Publication>();
    publication->generation = compiled->generation;
    publication->snapshot = std::move(compiled->snapshot);
    publication->size_bytes = compiled->size_bytes;
    publication->digest = compiled->digest;
    snapshot = std::make_shared<OpenSnapshot>(publication);
  }
  Enforcing enforcing() const {
    const auto view = snapshot->view();
    REQUIRE(view);
    return Enforcing(**view);
  }
  std::shared_ptr<OpenSnapshot> snapshot;
};

SeenFrame frame_of(Ipv4 source, Ipv4 destination, double weight = 1, uint32_t bytes = 100) {
  SeenFrame frame;
  frame.time_unix_ns = kNow * 1'000'000'000;
  frame.weight = weight;
  frame.bytes = bytes;
  frame.outer.family = 4;
  set_address(frame.outer, WEIR_SIDE_SOURCE, source);
  set_address(frame.outer, WEIR_SIDE_DESTINATION, destination);
  return frame;
}

}  // namespace

TEST_CASE("the radius of a change: shares, bytes, lists and talkers") {
  const Compiled1 before("lists:\n- {name: old, action: drop, entries: [192.0.2.1]}\n");
  const Compiled1 after(
      "policy: {unparsed: drop}\nlists:\n- {name: ok, action: pass, match: dst, entries: [203.0.113.1]}\n"
      "- {name: new, action: drop, entries: [192.0.2.2, 192.0.2.3]}\n");
  std::vector<SeenFrame> frames = {frame_of(0xc0000201, 0xcb007109, 10),        // passes then
                                   frame_of(0xc0000202, 0xcb007109, 20, 1000),  // dropped then
                                   frame_of(0xc0000203, 0xcb007109, 5),
                                   frame_of(0xc0000203, 0xcb007101, 5),  // to 203.0.113.1: exempt
                                   frame_of(0x05050505, 0xcb007109, 50)};
  frames.emplace_back().kind = wire::FrameKind::malformed;
  frames.back().weight = 5;
  frames.emplace_back().kind = wire::FrameKind::not_ip;
  frames.back().weight = 5;
  frames.back().time_unix_ns = frames[0].time_unix_ns;
  frames[5].time_unix_ns = frames[0].time_unix_ns - 7'000'000'000;
  const Radius radius = radius_of(before.enforcing(), after.enforcing(), frames, kNow);
  CHECK(radius.samples == 7);
  CHECK(radius.frames == 100);
  CHECK(radius.seconds == 7);
  CHECK(radius.dropped_before.value == Approx(0.10));
  CHECK(radius.dropped_after.value == Approx(0.30));
  CHECK(radius.newly_dropped.value == Approx(0.30));
  CHECK(radius.newly_passed.value == Approx(0.10));
  CHECK(radius.newly_dropped_bytes == Approx(20500.0 / 27000));
  CHECK(radius.newly_passed_bytes == Approx(1000.0 / 27000));
  REQUIRE(radius.credits.size() == 3);
  CHECK((radius.credits[0].name == "new" && radius.credits[0].samples == 2));
  CHECK(radius.credits[0].newly_dropped.value == Approx(0.25));
  CHECK((radius.credits[1].name == "old" && radius.credits[1].newly_passed.value == Approx(0.10)));
  CHECK((radius.credits[2].name == "policy.unparsed" && radius.credits[2].newly_dropped.value == Approx(0.05)));
  REQUIRE(radius.talkers.size() == 5);
  CHECK((radius.talkers[0].address == "203.0.113.9" && radius.talkers[0].side == "dst"));
  CHECK((radius.talkers[0].is_dropped && radius.talkers[0].share.value == Approx(0.25)));
  CHECK((radius.talkers[1].address == "192.0.2.2" && radius.talkers[1].credit == "new"));
  CHECK_FALSE(radius.are_tunnels_different);
  REQUIRE(radius.let_through.size() == 1);  // 203.0.113.9 passes by no list, and 203.0.113.1 for one drop list's source
  CHECK((radius.let_through[0].list == "ok" && radius.let_through[0].share.value == Approx(0.05)));
}

TEST_CASE("a pass list lets a packet through in any of its layers; the outermost is told") {
  const Compiled1 policy(
      "policy: {tunnels: [ipip]}\nlists:\n- {name: ok, action: pass, match: dst, entries: [203.0.113.1]}\n"
      "- {name: fine, action: pass, match: dst, entries: [203.0.113.2]}\n- {name: bad, action: drop, entries: "
      "[192.0.2.2]}\n");
  SeenFrame inside = frame_of(0x05050505, 0x05050506), both = frame_of(0xc0000202, 0xcb007102, 2);
  inside.inner.push_back(frame_of(0xc0000202, 0xcb007101).outer);
  both.inner.push_back(frame_of(0xc0000202, 0xcb007101).outer);
  const std::vector<SeenFrame> frames = {inside, both, frame_of(0x05050505, 0xcb007101, 7)};
  const Radius radius = radius_of(policy.enforcing(), policy.enforcing(), frames, kNow);
  REQUIRE(radius.let_through.size() == 2);
  CHECK((radius.let_through[0].list == "fine" && radius.let_through[0].share.value == Approx(0.2)));
  CHECK((radius.let_through[1].list == "ok" && radius.let_through[1].share.value == Approx(0.1)));
}

TEST_CASE("a frame is judged in all its layers, when the policy judges tunnels") {
  const std::string list = "lists:\n- {name: a, action: drop, entries: [192.0.2.1]}\n";
  const Compiled1 plain(list), tunnels("policy: {tunnels: [ipip]}\n" + list);
  SeenFrame frame = frame_of(0x05050505, 0x06060606);
  frame.inner.push_back(frame_of(0xc0000201, 0x06060606).outer);
  CHECK_FALSE(judge_seen(plain.enforcing(), frame, kNow).is_dropped);
  const SeenVerdict verdict = judge_seen(tunnels.enforcing(), frame, kNow);
  CHECK((verdict.is_dropped && verdict.credit == "a"));
  const Radius radius = radius_of(plain.enforcing(), tunnels.enforcing(), std::span(&frame, 1), kNow);
  CHECK(radius.are_tunnels_different);
  CHECK(radius.newly_dropped.value == 1);
}

TEST_CASE("an entry that has ended drops nothing more") {
  const Compiled1 empty("lists: []\n");
  const Compiled1 ends(
      "lists:\n- {name: a, action: drop, entries: [{entry: 192.0.2.1, expires: 2023-11-14T22:13:21Z}]}\n");
  const SeenFrame frame = frame_of(0xc0000201, 0x06060606);
  CHECK(radius_of(empty.enforcing(), ends.enforcing(), std::span(&frame, 1), kNow).newly_dropped.value == 1);
  CHECK(radius_of(empty.enforcing(), ends.enforcing(), std::span(&frame, 1), kNow + 1).newly_dropped.value == 0);
}

TEST_CASE("without frames nothing is known") {
  const Compiled1 empty("lists: []\n");
  const Radius radius = radius_of(empty.enforcing(), empty.enforcing(), {}, kNow);
  CHECK((radius.newly_dropped.low == 0 && radius.newly_dropped.high == 1));
}

TEST_CASE("intervals hold 95 of 100 shares, whatever they are") {
  std::mt19937_64 random(5);
  unsigned held = 0, all = 0;
  for (const double share : {0.0005, 0.003, 0.02, 0.2, 0.7}) {
    for (int round = 0; round < 400; round++) {
      constexpr int kSamples = 4000;
      const double found = std::binomial_distribution<int>(kSamples, share)(random);
      const Share told = share_of(found, kSamples, kSamples);
      held += told.low <= share && share <= told.high;
      all++;
      REQUIRE((told.low <= told.value && told.value <= told.high));
    }
  }
  CHECK(held >= 0.93 * all);
  CHECK(held <= 0.98 * all);
}
