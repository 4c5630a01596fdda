#include <map>
#include <random>

#include "filter/probe/dispatch.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/judging.h"
#include "tests/unit/filter/frame/random_frames.h"

// What base and overlay decide together is what a snapshot of the whole policy decides.
using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

constexpr uint64_t kNow = 1000;
constexpr unsigned kMasks = 16;  // of the lists of policy()

// What a key means, in no snapshot's numbers.
struct Meaning {
  unsigned lists[2] = {};  // by side: a mask
  unsigned chain[2] = {};  // by side: 0 none, 1 an entry that has expired, 2 one that has not, 3 TCP only
  bool operator==(const Meaning&) const = default;
};

struct ByWords {
  bool operator()(const filter::Key& a, const filter::Key& b) const { return a.word < b.word; }
};
using Keys = std::map<filter::Key, Meaning, ByWords>;

struct Shape {
  filter::KeyShape shape;
  uint8_t gate_side = WEIR_SIDE_SOURCE;
};

filter::KeyShape flow(uint8_t family, uint8_t source_bits, uint8_t destination_bits, uint8_t fields) {
  filter::KeyShape shape = {family, source_bits};
  shape.flow = true;
  shape.destination_bits = destination_bits;
  shape.flow_fields = fields;
  return shape;
}

const Shape kShapes[] = {
    {{4, 32, false}},
    {{4, 24, false}},
    {{4, 29, false}},
    {{4, 32, true}},
    {flow(4, 32, 32, WEIR_FLOW_PROTOCOL)},
    {flow(4, 31, 0, WEIR_FLOW_DPORT)},
    {flow(4, 0, 30, WEIR_FLOW_SPORT | WEIR_FLOW_PROTOCOL), WEIR_SIDE_DESTINATION},
    {{6, 128, false}},
    {{6, 126, false}},
    {{6, 128, true}},
    {flow(6, 128, 127, WEIR_FLOW_PROTOCOL | WEIR_FLOW_DPORT)},
    {flow(6, 0, 128, 0), WEIR_SIDE_DESTINATION},
};
constexpr size_t kNumberOfShapes = std::size(kShapes);
constexpr size_t kNetworks = 1;  // of kShapes
using Content = std::array<Keys, kNumberOfShapes>;

bool is_network(size_t shape) {
  return shape == kNetworks;
}

// Packets of a small world, so that they meet keys.
struct World : Random {
  using Random::Random;

  struct Ends {
    uint32_t v4[2];
    Ipv6 v6[2];
    filter::FlowFields fields;
  };
  Ends ends() {
    const auto v4 = [&] { return 0x0a000000 | below(3) << 12 | below(6); };
    const auto v6 = [&] { return Ipv6{0x20010db8} << 96 | below(10); };
    return {{v4(), v4()},
            {v6(), v6()},
            {static_cast<uint16_t>(1 + below(3)), static_cast<uint16_t>(1 + below(3)), of<uint8_t>({kUdp, kTcp})}};
  }
  filter::Key key(filter::KeyShape shape) {
    const Ends packet = ends();
    if (shape.flow) {
      return shape.family == 4 ? make_flow_key(shape, packet.v4[0], packet.v4[1], packet.fields)
                               : make_flow_key(shape, packet.v6[0], packet.v6[1], packet.fields);
    }
    return shape.family == 4 ? filter::make_key(shape, Ipv4{packet.v4[0]}, packet.fields.sport)
                             : filter::make_key(shape, packet.v6[0], packet.fields.sport);
  }
  Meaning meaning(bool is_flow) {
    Meaning meaning;
    for (const unsigned side : {0u, 1u}) {
      if (is_flow && side == 1) break;
      if (!one_in(4)) meaning.lists[side] = below(kMasks);
      if (one_in(4)) meaning.chain[side] = 1 + below(3);
    }
    return meaning;
  }
  Bytes frame() {
    if (one_in(3)) return random_frame(*this);
    const Ends packet = ends();
    const uint8_t protocol = one_in(4) ? uint8_t{kIcmp} : packet.fields.protocol;
    const Bytes payload = be16(packet.fields.sport) + be16(packet.fields.dport) + Bytes(16);
    if (one_in(2)) return ethernet(0x0800) + ipv4({protocol, payload, packet.v4[0], packet.v4[1]});
    return ethernet(0x86dd) +
           ipv6({protocol, payload, static_cast<uint8_t>(packet.v6[0]), static_cast<uint8_t>(packet.v6[1])});
  }
};

Content some_content(World& world) {
  Content content;
  for (size_t i = 0; i < kNumberOfShapes; i++) {
    if (world.one_in(3)) continue;
    const filter::KeyShape shape = kShapes[i].shape;
    for (unsigned n = 1 + world.below(12); n > 0; n--) content[i][world.key(shape)] = world.meaning(shape.flow);
  }
  return content;
}

// Some keys mean something else, nothing any more, or are new.
Content changed(const Content& before, World& world) {
  Content after = before;
  for (size_t i = 0; i < kNumberOfShapes; i++) {
    const filter::KeyShape shape = kShapes[i].shape;
    if (world.one_in(4)) continue;
    for (const auto& [key, meaning] : before[i]) {
      if (world.one_in(3))
        after[i].erase(key);
      else if (world.one_in(3))
        after[i][key] = world.meaning(shape.flow);
    }
    for (unsigned n = world.below(4); n > 0; n--) after[i][world.key(shape)] = world.meaning(shape.flow);
  }
  return after;
}

// The keys that mean something else afterwards; those that are gone mean nothing.
Content difference(const Content& before, const Content& after) {
  Content changes;
  for (size_t i = 0; i < kNumberOfShapes; i++) {
    for (const auto& [key, meaning] : before[i]) {
      if (!after[i].contains(key)) changes[i][key] = Meaning();
    }
    for (const auto& [key, meaning] : after[i]) {
      const auto was = before[i].find(key);
      if (was == before[i].end() || !(was->second == meaning)) changes[i][key] = meaning;
    }
  }
  return changes;
}

enum class As { snapshot, overlay };

// Sets, residuals and rules have other numbers in an overlay than in its base.
filter::SnapshotInput input_of(const Content& content, As as, uint64_t number, World& world) {
  filter::SnapshotInput input = policy();
  input.number = number;
  input.tunnels = WEIR_TUNNELS;
  const bool is_overlay = as == As::overlay;
  const auto set_of_mask = [&](unsigned mask) { return mask == 0 || !is_overlay ? mask : kMasks - mask; };
  input.sets.assign(kMasks, weir_set{});
  for (unsigned mask = 1; mask < kMasks; mask++) input.sets[set_of_mask(mask)].lists[0] = mask;

  input.residuals = {filter::no_residual()};
  if (is_overlay) {  // so that chains begin elsewhere
    weir_residual& other = input.residuals.emplace_back();
    other.set = 1;
    other.asks = WEIR_ASKS_PROTOCOL;
    other.last = 1;
  }
  const auto first = static_cast<unsigned>(input.residuals.size()) - 1;
  for (const unsigned kind : {1u, 2u, 3u}) {
    weir_residual residual = {};
    residual.set = set_of_mask(kind == 3 ? 8 : 1);
    residual.asks = kind == 3 ? WEIR_ASKS_PROTOCOL : WEIR_ASKS_EXPIRES;
    if (kind == 3)
      residual.protocol = kTcp;
    else
      residual.expires_unix_s = kind == 1 ? kNow : kNow + 1;
    residual.last = 1;
    input.residuals.push_back(residual);
  }
  const auto chain_of = [&](unsigned kind) { return kind == 0 ? 0 : first + kind; };
  input.rules = {weir_rule{}};
  const auto rule_of = [&](const Meaning& meaning) {
    input.rules.push_back({set_of_mask(meaning.lists[0]), set_of_mask(meaning.lists[1]), chain_of(meaning.chain[0]),
                           chain_of(meaning.chain[1])});
    return static_cast<uint32_t>(input.rules.size() - 1);
  };

  input.tables.clear();
  input.networks.clear();
  for (size_t i = 0; i < kNumberOfShapes; i++) {
    if (content[i].empty()) continue;
    const filter::KeyShape shape = kShapes[i].shape;
    if (is_network(i) && !is_overlay && world.one_in(2)) {  // a bitmap
      std::map<uint32_t, Meaning> runs;
      for (const auto& [key, meaning] : content[i]) {
        runs[__builtin_bswap32(static_cast<uint32_t>(key.word[0])) >> 8] = meaning;
      }
      for (const auto& [network, meaning] : runs) {
        if (!(meaning == Meaning())) input.networks.push_back({network, network, rule_of(meaning)});
      }
      continue;
    }
    filter::KeyTable& table = input.tables.emplace_back();
    table.shape = shape;
    table.gate_side = kShapes[i].gate_side;
    if (is_overlay) table.asked = shape.flow ? WEIR_AS_SOURCE : WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
    for (const auto& [key, meaning] : content[i]) {
      for (unsigned w = 0; w < filter::key_words(shape); w++) table.words[w].push_back(key.word[w]);
      table.rules.push_back(rule_of(meaning));
    }
  }
  // Tables are closed where no shape stands.
  for (const unsigned gate : {0u, 1u}) {
    input.gates[gate].tables.clear();
    if (!world.one_in(3)) input.gates[gate].tables = {{20, 0}};
    if (world.one_in(3)) input.gates[gate].tables = {{20, 512}, {32, 512}};
  }
  for (const unsigned gate : {2u, 3u}) {
    input.gates[gate].tables.clear();
    if (!world.one_in(3)) input.gates[gate].tables = {{16, 512}, {64, 1024}};
  }
  return input;
}

// What became of a burst.
struct Decided {
  uint64_t drop;
  std::array<uint64_t, 4> totals;  // passed, dropped, by default and in all
  std::vector<std::array<uint64_t, 12>> lists;
  bool operator==(const Decided&) const = default;
};

std::array<uint64_t, 12> numbers_of(const wire::ListStats& list) {
  return {list.matched,
          list.dropped,
          list.passed,
          list.would_drop,
          list.matched_bytes,
          list.dropped_bytes,
          list.passed_bytes,
          list.would_drop_bytes,
          list.dropped_alone,
          list.would_drop_alone,
          list.dropped_alone_bytes,
          list.would_drop_alone_bytes};
}

Decided decide(const Snapshot& snapshot, const std::vector<Bytes>& frames, const filter::Kernels* kernels) {
  const std::vector<wire::ListStats> before = snapshot.list_stats();
  Judged judged;
  judge(snapshot, frames, judged, kNow, kernels);
  const WorkerCounters& c = judged.counters;
  Decided decided = {
      judged.drop, {c.passed.get(), c.dropped.get(), c.default_passed.get(), c.default_dropped.get()}, {}};
  for (size_t l = 0; l < before.size(); l++) {
    std::array<uint64_t, 12> numbers = numbers_of(judged.lists[l]);
    const std::array<uint64_t, 12> were = numbers_of(before[l]);
    for (size_t i = 0; i < numbers.size(); i++) numbers[i] -= were[i];
    decided.lists.push_back(numbers);
  }
  return decided;
}

}  // namespace

TEST_CASE("base and overlay decide as a snapshot of the whole policy") {
  World world(23);
  unsigned rounds_that_differ = 0, with_overlay = 0, replaced = 0, added = 0;
  for (unsigned round = 0; round < 150; round++) {
    const Content before = some_content(world), after = changed(before, world);
    const Content changes = difference(before, after);
    const SnapshotBytes base = build(input_of(before, As::snapshot, 1, world));
    const SnapshotBytes overlay = build(input_of(changes, As::overlay, 2, world), &base);
    const SnapshotBytes whole = build(input_of(after, As::snapshot, 2, world));
    const auto of_both = attach(base, overlay), of_whole = attach(whole), of_base = attach(base);
    CHECK(of_both->generation() == wire::Generation{7, 2});
    with_overlay += of_both->overlay()->header().n_shapes != 0;
    for (const Lookup& lookup : of_both->of_worker(0).lookups) {
      replaced += lookup.part == Part::replacing;
      added += lookup.part == Part::added;
    }

    bool differs = false;
    for (int burst = 0; burst < 4; burst++) {
      std::vector<Bytes> frames;
      for (uint32_t i = 0; i < kMaxBurst; i++) frames.push_back(world.frame());
      for (const filter::Kernels* kernels : filter::all_kernels()) {
        if (!kernels->usable()) continue;
        INFO("round " << round << ", burst " << burst << ", " << kernels->name);
        const Decided expected = decide(*of_whole, frames, kernels);
        REQUIRE((decide(*of_both, frames, kernels) == expected));
        differs |= !(decide(*of_base, frames, kernels) == expected);
      }
    }
    rounds_that_differ += differs;
  }
  CHECK(rounds_that_differ > 100);
  CHECK(with_overlay > 140);
  CHECK(replaced > 500);
  CHECK(added > 100);
}

namespace {

// One host, blocked; then changed by an overlay.
constexpr uint32_t kHost = 0x0a000001, kOther = 0x0a000002;

filter::SnapshotInput hosts(uint64_t number, const std::vector<std::pair<uint32_t, uint32_t>>& rule_of_host) {
  filter::SnapshotInput input = policy();
  input.number = number;
  input.rules.push_back(weir_rule{});  // the last: without lists
  filter::KeyTable table;
  table.shape = {4, 32, false};
  table.asked = WEIR_AS_SOURCE;
  for (const auto& [host, rule] : rule_of_host) {
    table.words[0].push_back(filter::make_key(table.shape, Ipv4{host}).word[0]);
    table.rules.push_back(rule);
  }
  input.tables = {table};
  input.networks.clear();
  return input;
}

}  // namespace

TEST_CASE("an overlay takes away, changes and adds, and one without keys changes nothing") {
  const SnapshotBytes base = build(hosts(1, {{kHost, 1}}));
  const auto blocks = [&](const std::vector<std::pair<uint32_t, uint32_t>>& changes, uint32_t host) {
    return drops(*attach(base, build(hosts(2, changes), &base)), v4_frame(host));
  };
  constexpr uint32_t kBlockRule = 1, kWatchRule = 2, kNoLists = 7;
  CHECK(blocks({{kOther, kNoLists}}, kHost));
  CHECK_FALSE(blocks({{kHost, kNoLists}}, kHost));
  CHECK_FALSE(blocks({{kHost, kWatchRule}}, kHost));
  CHECK_FALSE(blocks({{kHost, kNoLists}}, kOther));
  CHECK(blocks({{kOther, kBlockRule}}, kOther));
  CHECK(blocks({{0xac100001, kBlockRule}}, 0xac100001));  // where the base's gate has no bit

  filter::SnapshotInput none = hosts(2, {});
  none.tables.clear();
  const auto same = attach(base, build(none, &base));
  CHECK(drops(*same, v4_frame(kHost)));
  CHECK_FALSE(drops(*same, v4_frame(kOther)));
}

TEST_CASE("what an overlay stands on must be its base") {
  const SnapshotBytes base = build(hosts(1, {{kHost, 1}})), other = build(hosts(1, {{kOther, 1}}));
  const std::vector<WorkerPlace> workers = {{-1}};
  const auto error = [&](const SnapshotBytes& on, const SnapshotBytes& overlay) {
    const auto opened = Snapshot::open(copy(on, workers), copy(overlay, workers), workers);
    return opened ? std::string() : opened.error();
  };
  const filter::SnapshotInput changes = hosts(2, {{kHost, 7}});
  const SnapshotBytes overlay = build(changes, &base);
  CHECK(error(base, overlay) == "");
  CHECK_THAT(error(other, overlay), Catch::Matchers::ContainsSubstring("other bytes of the same generation"));
  CHECK_THAT(error(base, build(changes)), Catch::Matchers::ContainsSubstring("number 0"));
  CHECK_THAT(error(overlay, overlay), Catch::Matchers::ContainsSubstring("in the place of a snapshot"));
  CHECK_FALSE(Snapshot::open(copy(overlay, workers), nullptr, workers));
}
