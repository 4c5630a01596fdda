// Overlays on the XDP plane: base and overlay mean what one snapshot of both would mean, packet by packet and list by
// list; how they come, go, and are refused. Exit code 77, with the reason, where programs cannot be loaded (plane.h).
#include <sched.h>

#include <set>

#include "tests/unit/bpf/overlays.h"

using namespace weir;
using namespace weir::xdp;

namespace {

using wire::Step;

// Two planes that are asked the same.
struct Pair {
  Plane layered, plain;
  uint64_t dropped = 0, asked = 0;

  void compare(const Frame& frame) {
    const bool drop = drops(plain, frame);
    CHECK(drops(layered, frame) == drop);
    dropped += drop;
    asked++;
  }
  // Lists by name, and what became of packets.
  void compare_counts() const {
    const wire::Stats a = layered.enforcer->stats().value(), b = plain.enforcer->stats().value();
    CHECK(memcmp(&a.body.totals, &b.body.totals, sizeof a.body.totals) == 0);
    REQUIRE(a.lists.size() == b.lists.size());
    for (size_t i = 0; i < a.lists.size(); i++) {
      INFO(a.lists[i].name);
      CHECK(memcmp(&a.lists[i], &b.lists[i], sizeof a.lists[i]) == 0);
    }
  }
};

// A packet of two keys, one on each side.
Flow meeting(const KeyTable& from, const KeyTable& to, Random& random) {
  Flow flow = member(from, random.below(from.rules.size()), WEIR_SIDE_SOURCE, random);
  const Flow other = member(to, random.below(to.rules.size()), WEIR_SIDE_DESTINATION, random);
  memcpy(flow.address[1], other.address[1], sizeof flow.address[1]);
  memcpy(flow.port[1], other.port[1], sizeof flow.port[1]);
  return flow;
}

void ask_all(Pair& pair, const std::vector<KeyTable>& keys, Random& random) {
  for (const KeyTable& table : keys) {
    for (size_t i = 0; i < table.rules.size(); i++) {
      CAPTURE(table.shape.family, table.shape.addr_bits, table.shape.with_port, table.shape.flow, i);
      for (const Kind kind : kKinds) {
        // So many that gates are asked, not gone around.
        for (int times = 0; times < 4; times++) {
          pair.compare(frame_of(stranger(times % 2 == 0 ? 4u : 6u, random), kind, random));
        }
        for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
          CAPTURE(kind, side);
          pair.compare(frame_of(member(table, i, side, random), kind, random));
        }
        const KeyTable& other = keys[random.below(keys.size())];
        if (other.shape.family != table.shape.family || other.shape.flow || table.shape.flow) continue;
        pair.compare(frame_of(meeting(table, other, random), kind, random));
      }
    }
  }
}

wire::PublishedBody refused(const Plane& plane, const Buffer& snapshot, Step step, const std::string& why,
                            const Buffer* base = nullptr) {
  const wire::Generation before = plane.enforcer->status().generation;
  const wire::PublishedBody answer = plane.enforcer->publish(message_of(snapshot, base));
  INFO(answer.reason);
  CHECK(answer.ok == 0);
  CHECK(answer.failed_step == step);
  CHECK(std::string(answer.reason).find(why) != std::string::npos);
  CHECK(answer.generation == before);
  CHECK(plane.enforcer->status().generation == before);
  return answer;
}

std::set<int> dropped_of(const Plane& plane) {
  std::set<int> dropped;
  for (int last = 1; last <= 8; last++) {
    if (drops(*plane.enforcer, static_cast<uint8_t>(last))) dropped.insert(last);
  }
  return dropped;
}

// Different maps that lie in a group's places.
size_t maps_in(const Plane& plane, uint32_t group) {
  const Fd arenas(bpf_obj_get(pin_path(plane.folder, "weir_arenas").c_str()));
  REQUIRE(arenas);
  std::set<uint32_t> maps;
  for (uint32_t at = group * WEIR_CHUNKS; at < group * WEIR_CHUNKS + 16; at++) {
    uint32_t id = 0;
    if (bpf_map_lookup_elem(arenas.get(), &at, &id) == 0) maps.insert(id);
  }
  return maps.size();
}

}  // namespace

TEST_CASE("base and overlay mean what one snapshot of both means") {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);  // whether gates are asked, each processor says for itself
  const OnBase::Choice choices[] = {
      {},
      {.gates = false, .flow_side = WEIR_SIDE_DESTINATION, .layout = WEIR_LAYOUT_PAGE2},
      {.networks = false, .layout = WEIR_LAYOUT_RIBBON},
      {.flow_side = WEIR_SIDE_DESTINATION, .layout = WEIR_LAYOUT_PAGE7, .default_action = WEIR_DROP},
  };
  Pair pair, without;
  for (const Plane* plane : {&pair.layered, &pair.plain, &without.layered, &without.plain}) {
    plane->enforcer->fix_clock(kNow);
  }
  uint64_t number = 1;
  for (const OnBase::Choice& choice : choices) {
    CAPTURE(number);
    OnBase made(number, choice);
    publish(pair.plain, made.whole);
    if (number % 4 == 1) {
      publish(pair.layered, made.base);
      publish(pair.layered, made.overlay);
    } else {
      publish(pair.layered, made.overlay, &made.base);
    }
    pair.dropped = pair.asked = 0;
    ask_all(pair, made.keys, made.random);
    pair.compare_counts();
    CHECK(pair.dropped > 200);
    CHECK(pair.asked - pair.dropped > 200);
    // Without the overlay it is another policy: else this would show nothing.
    publish(without.layered, made.base);
    publish(without.plain, made.whole);
    int differ = 0;
    for (const KeyTable& table : made.keys) {
      for (size_t i = 0; i < table.rules.size(); i++) {
        const Frame frame = frame_of(member(table, i, WEIR_SIDE_SOURCE, made.random), Kind::plain, made.random);
        differ += drops(without.layered, frame) != drops(without.plain, frame);
      }
    }
    CHECK(differ > 20);
    number += 2;
  }
}

TEST_CASE("an overlay comes, is replaced, and goes with its base") {
  const Plane plane;
  const Buffer base = base_of(1, {1, 2, 3}), next_base = base_of(6, {7});
  publish(plane, base);
  CHECK(dropped_of(plane) == std::set<int>{1, 2, 3});
  CHECK(plane.enforcer->status().overlay_bytes == 0);
  CHECK(plane.enforcer->status().base == wire::Generation{kEpoch, 1});

  const Buffer first = overlay_of(2, base, {4, 5}, {1});
  publish(plane, first);
  CHECK(dropped_of(plane) == std::set<int>{2, 3, 4, 5});
  wire::StatusBody status = plane.enforcer->status();
  CHECK(status.generation == wire::Generation{kEpoch, 2});
  CHECK(status.base == wire::Generation{kEpoch, 1});
  CHECK(memcmp(status.digest, digest_of(first.bytes()).data(), sizeof status.digest) == 0);
  CHECK(memcmp(status.base_digest, digest_of(base.bytes()).data(), sizeof status.base_digest) == 0);
  CHECK(status.snapshot_bytes == base.bytes().size());
  CHECK(status.overlay_bytes == first.bytes().size());
  CHECK(status.overlay_keys == 3);

  publish(plane, first);  // again: nothing changes
  CHECK(plane.enforcer->status().generation == wire::Generation{kEpoch, 2});
  // Each holds all changes since its base: nothing of the former ones is left.
  publish(plane, overlay_of(3, base, {6}));
  CHECK(dropped_of(plane) == std::set<int>{1, 2, 3, 6});
  publish(plane, overlay_of(4, base, {}, {1, 2, 3}));
  CHECK(dropped_of(plane).empty());
  publish(plane, overlay_of(5, base, {8}));
  CHECK(dropped_of(plane) == std::set<int>{1, 2, 3, 8});
  publish(plane, next_base);
  CHECK(dropped_of(plane) == std::set<int>{7});
  CHECK(plane.enforcer->status().overlay_bytes == 0);
  // Both by one message; the former overlay must not show through.
  const Buffer third = base_of(7, {1, 2});
  publish(plane, overlay_of(8, third, {3}, {2}), &third);
  CHECK(dropped_of(plane) == std::set<int>{1, 3});
  CHECK(plane.enforcer->status().base == wire::Generation{kEpoch, 7});
  CHECK(plane.enforcer->stats()->body.generation == wire::Generation{kEpoch, 8});
}

TEST_CASE("an overlay on another base is refused, and its base is asked for") {
  const Plane plane;
  const Buffer base = base_of(1, {1}), other = base_of(2, {2});
  CHECK(refused(plane, overlay_of(3, base, {4}), Step::check, "not enforced here").needs_base == 1);
  publish(plane, base);
  const Buffer on_other = overlay_of(3, other, {4});
  CHECK(refused(plane, on_other, Step::check, "not enforced here").needs_base == 1);
  // Of the same number, and other bytes.
  CHECK(refused(plane, overlay_of(3, base_of(1, {1, 2}), {4}), Step::check, "not enforced here").needs_base == 1);
  CHECK(dropped_of(plane) == std::set<int>{1});
  publish(plane, on_other, &other);
  CHECK(dropped_of(plane) == std::set<int>{2, 4});
  CHECK(refused(plane, overlay_of(4, base, {5}), Step::check, "not enforced here").needs_base == 1);
  CHECK(refused(plane, other, Step::check, "older").needs_base == 0);
  CHECK(dropped_of(plane) == std::set<int>{2, 4});
}

TEST_CASE("an overlay that does not fit its base is refused, and what enforced goes on") {
  const Plane plane;
  const Buffer base = base_of(1, {1});
  publish(plane, base);
  publish(plane, overlay_of(2, base, {2}));
  const auto changed = [&](auto change) {
    SnapshotInput input = hosts(3, {3});
    change(input);
    return build_overlay(input, base);
  };
  const auto unfit = [&](const Buffer& overlay, const std::string& why) {
    CHECK(refused(plane, overlay, Step::validate, why).needs_base == 0);
    CHECK(dropped_of(plane) == std::set<int>{1, 2});
  };
  unfit(changed([](SnapshotInput& input) { input.secret[0]++; }), "secrets");
  unfit(changed([](SnapshotInput& input) { input.lists[1].mode = WEIR_MONITOR; }), "lists");
  unfit(changed([](SnapshotInput& input) { input.default_action = WEIR_DROP; }), "default");
  unfit(changed([](SnapshotInput& input) { input.networks = {{7, 7, 1}}; }), "bitmap");
  unfit(changed([](SnapshotInput& input) {
          input.tables[0].asked = 0;
          input.tables[0].rules = {kTakenAway};
        }),
        "is not asked where the base's is");
  // One that says in its message that it is no overlay.
  wire::Message whole = message_of(overlay_of(3, base, {3}));
  auto body = *wire::body_as<wire::PublishBody>(whole);
  body.base = {};
  std::fill(std::begin(body.base_digest), std::end(body.base_digest), 0);
  whole.body.assign(wire::bytes_of(body).begin(), wire::bytes_of(body).end());
  const wire::PublishedBody answer = plane.enforcer->publish(whole);
  CHECK(answer.failed_step == Step::validate);
  CHECK(std::string(answer.reason) == "an overlay came as a whole snapshot");
  CHECK(dropped_of(plane) == std::set<int>{1, 2});
  publish(plane, overlay_of(3, base, {3}));
  CHECK(dropped_of(plane) == std::set<int>{1, 3});
}

TEST_CASE("base and overlay enforce without their enforcer, and the next one goes on from there") {
  const std::string folder = own_folder();
  const Buffer base = base_of(1, {1, 2});
  {
    auto first = Enforcer::open({{}, Attach::any, folder});
    if (!first) FAIL(first.error());
    REQUIRE((*first)->publish(message_of(base)).ok == 1);
    REQUIRE((*first)->publish(message_of(overlay_of(2, base, {3}, {1}))).ok == 1);
  }
  const Result<PinnedState> pinned = look_at_pinned(folder);
  if (!pinned) FAIL(pinned.error());
  CHECK(pinned->status.generation == wire::Generation{kEpoch, 2});
  CHECK(pinned->status.base == wire::Generation{kEpoch, 1});
  CHECK(pinned->status.overlay_keys == 2);
  const Plane again(folder);
  CHECK(dropped_of(again) == std::set<int>{2, 3});
  CHECK(again.enforcer->status().generation == wire::Generation{kEpoch, 2});
  publish(again, overlay_of(2, base, {3}, {1}));  // the same
  for (uint64_t number = 3; number < 7; number++) {
    publish(again, overlay_of(number, base, {static_cast<uint8_t>(number)}));
    CHECK(dropped_of(again) == std::set<int>{1, 2, static_cast<int>(number)});
  }
  CHECK(refused(again, overlay_of(9, base_of(8, {1}), {3}), Step::check, "not enforced here").needs_base == 1);
}

TEST_CASE("samples of what an overlay drops are of its generation") {
  const Plane plane;
  const Buffer base = base_of(1, {1});
  publish(plane, base);
  publish(plane, overlay_of(2, base, {3}));
  const wire::SamplingBody all = {1, UINT32_MAX, 64, 0};
  REQUIRE(plane.enforcer->samples(all));
  CHECK(dropped_of(plane) == std::set<int>{1, 3});
  Result<std::vector<std::byte>> body = plane.enforcer->samples(all);
  REQUIRE(body);
  wire::Message message;
  message.body = std::move(*body);
  const std::optional<wire::Samples> samples = wire::samples_from(message);
  REQUIRE(samples);
  REQUIRE(samples->frames.size() == 2);  // by the base and by the overlay
  for (const wire::SampledFrame& frame : samples->frames) {
    CHECK(frame.sample.generation == wire::Generation{kEpoch, 2});
    CHECK_FALSE(wire::get_text(frame.sample.list).empty());
  }
}

TEST_CASE("memory of an overlay that was large does not stay") {
  const Plane plane;
  const Buffer base = base_of(1, {1});
  publish(plane, base);
  SnapshotInput large = hosts(2, {2});
  Random random(3);
  large.tables.push_back(filter::test::random_table({6, 128}, 200'000, 2, random));
  const Buffer overlay = build_overlay(large, base);
  REQUIRE(overlay.bytes().size() > uint64_t{WEIR_CHUNK_PAGES} * WEIR_PAGE_BYTES);
  publish(plane, overlay);
  CHECK(dropped_of(plane) == std::set<int>{1, 2});
  CHECK(maps_in(plane, 2) + maps_in(plane, 3) >= 2);
  for (const size_t i : {size_t{0}, size_t{199'999}}) {
    CHECK(drops(plane, frame_of(member(large.tables[1], i, WEIR_SIDE_SOURCE, random), Kind::plain, random)));
  }
  for (uint64_t number = 3; number < 6; number++) {
    publish(plane, overlay_of(number, base, {3}));
    CHECK(dropped_of(plane) == std::set<int>{1, 3});
  }
  // What stands for no map is one, too.
  CHECK(maps_in(plane, 2) <= 2);
  CHECK(maps_in(plane, 3) <= 2);
}

int before_tests() {
  return can_load_programs();
}
