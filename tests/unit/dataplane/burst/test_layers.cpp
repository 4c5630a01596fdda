#include <array>
#include <random>

#include "filter/probe/dispatch.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/judging.h"

// Frames with tunnels: each layer is a packet of its own.
using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

constexpr uint32_t kBlocked = 0x0a000001, kWatched = 0x0a000002, kAllowed = 0x0a000003, kBlockedTwice = 0x0a000004;
constexpr uint32_t kBlockedTo = 0x0a000005;  // as destination, by block-too
constexpr uint32_t kStranger = 0x0a000063;

struct Address {
  uint32_t source = kStranger;
  uint32_t destination = 0x08080808;
};

// IPv4 in IPv4, outer first.
Bytes nested(std::vector<Address> layers) {
  Bytes packet = ipv4({kUdp, udp_payload(), layers.back().source, layers.back().destination});
  for (size_t layer = layers.size() - 1; layer-- > 0;) {
    packet = ipv4({kIpip, packet, layers[layer].source, layers[layer].destination});
  }
  return ethernet(0x0800) + packet;
}

SnapshotBytes with_tunnels(uint8_t tunnels, weir_action default_action = WEIR_PASS) {
  filter::SnapshotInput input = policy();
  input.tunnels = tunnels;
  input.default_action = default_action;
  return build(input);
}

// matched, dropped, passed, would_drop of block, watch, allow, block-too.
using Lists = std::array<std::array<uint64_t, 4>, kLists>;
enum class Credit { list, default_passed, default_dropped };

struct Row {
  const char* name;
  std::vector<Address> layers;
  weir_action default_action;
  bool dropped;
  Credit credit;
  Lists lists;
};

std::vector<Row> rows() {
  constexpr weir_action pass = WEIR_PASS, drop = WEIR_DROP;
  const Lists none = {};
  const Lists block = {{{1, 1, 0, 0}, {}, {}, {}}};
  const Lists block_unpaid = {{{1, 0, 0, 0}, {}, {}, {}}};
  const Lists allow_passes = {{{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 1, 0}, {}}};
  const Lists allow_alone = {{{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}, {}}};
  const Lists block_and_allow = {{{1, 1, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}, {}}};
  return {
      {"strangers", {{}, {}}, pass, false, Credit::default_passed, none},
      {"strangers, default drop", {{}, {}}, drop, true, Credit::default_dropped, none},
      {"inner blocked", {{}, {kBlocked}}, pass, true, Credit::list, block},
      {"outer blocked", {{kBlocked}, {}}, pass, true, Credit::list, block},
      {"outer blocked, default drop", {{kBlocked}, {}}, drop, true, Credit::list, block},
      {"outer by default, inner blocked", {{}, {kBlocked}}, drop, true, Credit::default_dropped, block_unpaid},
      {"both blocked: counted once", {{kBlocked}, {kBlocked}}, pass, true, Credit::list, block},
      {"all four blocked", {{kBlocked}, {kBlocked}, {kBlocked}, {kBlocked}}, pass, true, Credit::list, block},
      {"the fourth layer", {{}, {}, {}, {kBlocked}}, pass, true, Credit::list, block},
      {"the fifth is not looked at", {{}, {}, {}, {}, {kBlocked}}, pass, false, Credit::default_passed, none},
      {"outer allowed, inner blocked", {{kAllowed}, {kBlocked}}, pass, true, Credit::list, block_and_allow},
      {"outer blocked, inner allowed", {{kBlocked}, {kAllowed}}, pass, true, Credit::list, block_and_allow},
      {"outer allowed", {{kAllowed}, {}}, pass, false, Credit::list, allow_passes},
      {"inner allowed", {{}, {kAllowed}}, pass, false, Credit::list, allow_passes},
      {"both allowed", {{kAllowed}, {kAllowed}}, drop, false, Credit::list, allow_passes},
      {"outer allowed, default drop", {{kAllowed}, {}}, drop, true, Credit::default_dropped, allow_alone},
      {"inner allowed, default drop", {{}, {kAllowed}}, drop, true, Credit::default_dropped, allow_alone},
      {"the outermost that drops is credited: block",
       {{kBlocked}, {kStranger, kBlockedTo}},
       pass,
       true,
       Credit::list,
       {{{1, 1, 0, 0}, {}, {}, {1, 0, 0, 0}}}},
      {"the outermost that drops is credited: block-too",
       {{}, {kStranger, kBlockedTo}, {kBlocked}},
       pass,
       true,
       Credit::list,
       {{{1, 0, 0, 0}, {}, {}, {1, 1, 0, 0}}}},
      {"watched outside", {{kWatched}, {}}, pass, false, Credit::default_passed, {{{}, {1, 0, 0, 1}, {}, {}}}},
      {"watched in both: counted once",
       {{kWatched}, {kWatched}},
       pass,
       false,
       Credit::default_passed,
       {{{}, {1, 0, 0, 1}, {}, {}}}},
      {"watched outside, exempt inside: would drop",
       {{kWatched}, {kAllowed}},
       pass,
       false,
       Credit::list,
       {{{1, 0, 0, 0}, {1, 0, 0, 1}, {1, 0, 1, 0}, {}}}},
      {"exempt outside, watched inside: would drop",
       {{kAllowed}, {kWatched}},
       pass,
       false,
       Credit::list,
       {{{1, 0, 0, 0}, {1, 0, 0, 1}, {1, 0, 1, 0}, {}}}},
      {"watched, default drop", {{}, {kWatched}}, drop, true, Credit::default_dropped, {{{}, {1, 0, 0, 1}, {}, {}}}},
      {"watched and blocked inside",
       {{}, {kBlockedTwice}},
       pass,
       true,
       Credit::list,
       {{{1, 1, 0, 0}, {1, 0, 0, 1}, {}, {1, 0, 0, 0}}}},
      {"both sides of one layer, beside another layer",
       {{kAllowed, kBlockedTo}, {kBlocked, kBlockedTo}},
       pass,
       true,
       Credit::list,
       {{{1, 1, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}}}},
  };
}

}  // namespace

TEST_CASE("verdict and counters of layers") {
  for (const Row& row : rows()) {
    INFO(row.name);
    const Bytes frame = nested(row.layers);
    const std::unique_ptr<Snapshot> snapshot = attach(with_tunnels(WEIR_TUNNEL_IPIP, row.default_action));
    Judged judged;
    judge(*snapshot, std::span(&frame, 1), judged);
    CHECK(judged.drop == uint64_t{row.dropped});
    CHECK(judged.counters.packets.get() == 1);
    CHECK(judged.counters.bytes.get() == frame.size());
    CHECK(judged.counters.dropped.get() == uint64_t{row.dropped});
    CHECK(judged.counters.passed.get() == uint64_t{!row.dropped});
    CHECK(judged.counters.default_passed.get() == uint64_t{row.credit == Credit::default_passed});
    CHECK(judged.counters.default_dropped.get() == uint64_t{row.credit == Credit::default_dropped});
    for (uint32_t list = 0; list < kLists; list++) {
      INFO(judged.lists[list].name);
      const wire::ListStats& stats = judged.lists[list];
      const uint64_t packets[] = {stats.matched, stats.dropped, stats.passed, stats.would_drop};
      const uint64_t bytes[] = {stats.matched_bytes, stats.dropped_bytes, stats.passed_bytes, stats.would_drop_bytes};
      for (size_t i = 0; i < 4; i++) {
        CHECK(packets[i] == row.lists[list][i]);
        CHECK(bytes[i] == row.lists[list][i] * frame.size());
      }
    }
  }
}

TEST_CASE("a drop is a list's alone when no other drop list decides in any layer") {
  constexpr weir_action pass = WEIR_PASS, drop = WEIR_DROP;
  const struct {
    const char* name;
    std::vector<Address> layers;
    weir_action default_action;
    uint64_t block, watch, block_too;  // alone
  } cases[] = {
      {"one layer drops", {{}, {kBlocked}}, pass, 1, 0, 0},
      {"both, by the same list", {{kBlocked}, {kBlocked}}, pass, 1, 0, 0},
      {"each by another list", {{kBlocked}, {kStranger, kBlockedTo}}, pass, 0, 0, 0},
      {"the other list stands where a pass list exempts", {{kStranger, kBlockedTo}, {kAllowed}}, pass, 0, 0, 1},
      {"the default drops first", {{}, {kBlocked}}, drop, 0, 0, 0},
      {"watched, and nothing drops", {{}, {kWatched}}, pass, 0, 1, 0},
      {"watched, and the default drops", {{}, {kWatched}}, drop, 0, 1, 0},
      {"watched, and another layer drops", {{kWatched}, {kBlocked}}, pass, 1, 0, 0},
      {"watched, and what drops is exempt", {{kWatched}, {kAllowed}}, pass, 0, 1, 0},
  };
  for (const auto& row : cases) {
    INFO(row.name);
    const Bytes frame = nested(row.layers);
    Judged judged;
    judge(*attach(with_tunnels(WEIR_TUNNEL_IPIP, row.default_action)), std::span(&frame, 1), judged);
    CHECK(judged.lists[0].dropped_alone == row.block);
    CHECK(judged.lists[0].dropped_alone_bytes == row.block * frame.size());
    CHECK(judged.lists[1].would_drop_alone == row.watch);
    CHECK(judged.lists[1].would_drop_alone_bytes == row.watch * frame.size());
    CHECK(judged.lists[3].dropped_alone == row.block_too);
  }
}

TEST_CASE("without the tunnel in the policy the inner packet is not judged") {
  const Bytes frame = nested({{}, {kBlocked}});
  CHECK_FALSE(drops(*attach(with_tunnels(0)), frame));
  CHECK_FALSE(drops(*attach(with_tunnels(WEIR_TUNNELS ^ WEIR_TUNNEL_IPIP)), frame));
  CHECK(drops(*attach(with_tunnels(WEIR_TUNNELS)), frame));
}

TEST_CASE("an entry matches within one layer") {
  // 198.51.100.7:443 is blocked: the address of one layer and the port of the other are no match.
  const Bytes inner = ipv4({kUdp, be16(1) + be16(443) + Bytes(4), 1, 2});
  const Bytes frame = ethernet(0x0800) + ipv4({kIpip, inner, 1, 0xc6336407});
  CHECK_FALSE(drops(*attach(with_tunnels(WEIR_TUNNELS)), frame));
}

TEST_CASE("incomplete counts a frame once, malformed and not_ip its outer layer") {
  V6 cut;
  cut.next = 0;
  cut.payload = {};
  struct {
    const char* name;
    Bytes frame;
    uint64_t incomplete;
  } const cases[] = {
      {"outer", ethernet(0x86dd) + ipv6(cut), 1},
      {"inner", ethernet(0x0800) + v4_around(kSixInFour, ipv6(cut)), 1},
      {"inner is no packet", ethernet(0x0800) + v4_around(kSixInFour, Bytes(39, 0x60)), 0},
      {"inner arp", ethernet(0x0800) + v4_around(kGre, gre(0x6558) + ethernet(0x0806)), 0},
  };
  for (const auto& row : cases) {
    INFO(row.name);
    Judged judged;
    judge(*attach(with_tunnels(WEIR_TUNNELS)), std::span(&row.frame, 1), judged);
    CHECK(judged.counters.incomplete.get() == row.incomplete);
    CHECK(judged.counters.malformed.get() == 0);
    CHECK(judged.counters.not_ip.get() == 0);
    CHECK(judged.counters.default_passed.get() == 1);
  }
}

namespace {

struct Sums {
  uint64_t drop = 0;
  std::vector<uint64_t> counters;
  bool operator==(const Sums&) const = default;
};

void add(Sums& sums, const Judged& judged) {
  const WorkerCounters& c = judged.counters;
  std::vector<uint64_t> all = {c.packets.get(),    c.bytes.get(),          c.passed.get(),
                               c.dropped.get(),    c.malformed.get(),      c.not_ip.get(),
                               c.incomplete.get(), c.default_passed.get(), c.default_dropped.get()};
  for (const wire::ListStats& list : judged.lists) {
    for (const uint64_t value : {list.matched, list.dropped, list.passed, list.would_drop, list.matched_bytes,
                                 list.dropped_bytes, list.passed_bytes, list.would_drop_bytes, list.dropped_alone,
                                 list.would_drop_alone, list.dropped_alone_bytes, list.would_drop_alone_bytes}) {
      all.push_back(value);
    }
  }
  sums.counters.resize(all.size());
  for (size_t i = 0; i < all.size(); i++) sums.counters[i] += all[i];
}

}  // namespace

TEST_CASE("frames of many layers, received as often as there are slots: none lost, each as if alone") {
  std::mt19937_64 engine(3);
  const auto below = [&](uint64_t n) { return engine() % n; };
  for (unsigned round = 0; round < 60; round++) {
    const SnapshotBytes bytes = with_tunnels(WEIR_TUNNELS, round % 3 == 0 ? WEIR_DROP : WEIR_PASS);
    const uint64_t most_layers = round % 6 == 5 ? 4 : 1 + below(5);
    const uint32_t n = round % 2 == 0 ? kMaxBurst : static_cast<uint32_t>(1 + below(kMaxBurst));
    std::vector<Bytes> frames;
    Sums expected;
    for (uint32_t i = 0; i < n; i++) {
      std::vector<Address> layers(round % 6 == 5 ? 4 : 1 + below(most_layers));
      for (Address& layer : layers) {
        if (below(4) == 0) layer.source = static_cast<uint32_t>(kBlocked + below(4));
        if (below(8) == 0) layer.destination = kBlockedTo;
      }
      frames.push_back(below(12) == 0 ? ethernet(0x0806) + Bytes(28) : nested(layers));
      if (below(20) == 0) frames.back().resize(10);
      Judged alone;
      judge(*attach(bytes), std::span(&frames.back(), 1), alone);
      expected.drop |= alone.drop << i;
      add(expected, alone);
    }
    INFO("round " << round << ", " << n << " frames");
    Judged judged;
    judge(*attach(bytes), frames, judged);
    Sums found;
    found.drop = judged.drop;
    add(found, judged);
    REQUIRE(found.drop == expected.drop);
    REQUIRE(found.counters == expected.counters);
  }
}

TEST_CASE("a group has room for sixteen frames with all their layers, and for no more") {
  Wants wants = {};
  CHECK(most_received(wants) == kMaxReceived);
  wants.tunnels = WEIR_TUNNEL_IPIP;
  CHECK(most_received(wants) == 16);
  const std::unique_ptr<Snapshot> snapshot = attach(with_tunnels(WEIR_TUNNELS));
  for (const uint32_t n : {15u, 16u, 17u, 32u, 33u, 48u, 49u, 64u}) {
    const std::vector<Bytes> frames(n, nested({{}, {}, {}, {kBlocked}}));
    Judged judged;
    judge(*snapshot, frames, judged);
    CHECK(judged.drop == low_bits(n));
    CHECK(judged.receptions == (n + 15) / 16);
  }
}

TEST_CASE("of a packet in a tunnel no fragment overtakes another") {
  const std::unique_ptr<Snapshot> snapshot = attach(with_tunnels(WEIR_TUNNEL_IPIP));
  const Address outer = {0x08080808, 0x08080404};  // that no gate lets through
  Bytes first = nested({outer, {kBlocked}}), later = first, whole = nested({outer});
  first[14 + 6] |= 0x20;  // more fragments
  later[14 + 7] = 64;     // offset
  std::vector<std::unique_ptr<Packet>> packets;
  for (const Bytes& frame : {first, later, whole}) packets.push_back(std::make_unique<Packet>(frame));
  WorkerCounters counters;
  Ports ports;
  TestLoop<> loop(ports, **filter::choose_kernels(), counters);
  loop.receive(snapshot->of_worker(0), packets);
  CHECK(ports.left.size() == 1);  // the one that is of no tunnel
  loop.finish();
  // The fragment that shows what is in it drops, the other passes: both have waited for that.
  REQUIRE(ports.left.size() == 3);
  for (const auto& [mbuf, dropped] : ports.left) CHECK(dropped == (mbuf == packets[0]->mbuf()));
}

TEST_CASE("the outermost layer that is exempt is credited, to its first pass list") {
  filter::SnapshotInput input = policy();
  input.tunnels = WEIR_TUNNELS;
  input.lists = {{"block", WEIR_DROP, WEIR_ENFORCE, 0},
                 {"first", WEIR_PASS, WEIR_ENFORCE, 0},
                 {"second", WEIR_PASS, WEIR_ENFORCE, 0},
                 {"third", WEIR_PASS, WEIR_ENFORCE, 0}};
  input.sets = {weir_set{}, set_of({0}), set_of({1, 2}), set_of({2, 3}), set_of({0, 3}), set_of({1})};
  const auto credited = [&](const std::vector<Address>& layers) {
    const Bytes frame = nested(layers);
    Judged judged;
    judge(*attach(build(input)), std::span(&frame, 1), judged);
    REQUIRE(judged.drop == 0);
    std::string names;
    for (const wire::ListStats& list : judged.lists) {
      if (list.passed != 0) names += list.name;
    }
    return names;
  };
  // 10.0.0.2 is in first and second, .3 in second and third.
  CHECK(credited({{0x0a000002}, {0x0a000003}}) == "first");
  CHECK(credited({{0x0a000003}, {0x0a000002}}) == "second");
  CHECK(credited({{}, {0x0a000003}, {0x0a000002}}) == "second");
  CHECK(credited({{}, {}, {0x0a000002}}) == "first");
}

TEST_CASE("layers that cross segments are read whole") {
  const std::unique_ptr<Snapshot> snapshot = attach(with_tunnels(WEIR_TUNNELS));
  const auto vxlan_frame = [](uint32_t source) {
    const Bytes inner = ipv4({kTcp, tcp(2), source, 0x08080808});
    const Bytes middle = v6_around(kUdp, udp(1, 4789, vxlan() + ethernet(0x8100) + vlan(0x0800) + inner));
    return ethernet(0x0800) + v4_around(kGre, gre(0x86dd, 0x20) + middle);
  };
  for (const uint32_t source : {kBlocked, kStranger}) {
    const Bytes frame = vxlan_frame(source);
    for (size_t cut = 0; cut <= frame.size(); cut++) {
      for (const size_t second : {cut, (cut + frame.size()) / 2}) {
        INFO("segments of " << cut << ", " << second - cut << ", " << frame.size() - second << " bytes");
        const std::unique_ptr<Packet> packet[] = {std::make_unique<Packet>(frame, std::vector{cut, second})};
        Judged judged;
        judge(*snapshot, packet, judged);
        REQUIRE(judged.drop == uint64_t{source == kBlocked});
      }
    }
  }
}

TEST_CASE("a packet whose header leaves its length open ends with the frame, however many segments that has") {
  V4 open;
  open.total_length = 0;
  open.payload = Bytes(40'000, 0x11);
  const Bytes inside = ipv4(open);
  V4 around = {kIpip, inside};
  around.total_length = 0;
  for (const uint8_t tunnels : {uint8_t{0}, uint8_t{WEIR_TUNNEL_IPIP}}) {
    const Bytes frame = ethernet(0x0800) + ipv4(around);
    const std::unique_ptr<Packet> packet[] = {std::make_unique<Packet>(frame, std::vector<size_t>{60, 2000, 30'000})};
    auto burst = std::make_unique<Burst>();
    clear(*burst);
    burst->pkt[0] = packet[0]->mbuf();
    burst->n = 1;
    WorkerCounters counters;
    Wants wants = {};
    wants.tunnels = tunnels;
    dataplane::parse(wants, {}, *burst, counters);
    REQUIRE((burst->not_ip | burst->malformed) == 0);
    CHECK(headers_of(*burst, 0).length == 20 + 20 + 40'000);
    if (tunnels != 0) {
      REQUIRE(burst->n_inner[0] == 1);
      CHECK(burst->hdr[burst->inner[0]].length == 20 + 40'000);
    }
  }
}

TEST_CASE("the furthest header that a frame of many segments can have") {
  const std::unique_ptr<Snapshot> snapshot = attach(with_tunnels(WEIR_TUNNELS));
  const auto longest = [](uint8_t last_protocol, const Bytes& inside, uint8_t source) {
    V6 packet;
    packet.next = 60;
    packet.payload = times(15, extension(60, 255)) + extension(last_protocol, 255) + inside;
    packet.payload_length = 0;
    packet.source_last = source;
    return ipv6(packet);
  };
  for (const uint8_t source : std::initializer_list<uint8_t>{9, 8}) {  // 2001:db8::9 is blocked
    Bytes packet = longest(kTcp, tcp(2), source);
    for (int layer = 0; layer < 3; layer++) {
      packet = longest(kUdp, be16(2152) + be16(2152) + Bytes(4) + gtpu(4, Bytes(16, 255)) + packet, 7);
    }
    const Bytes eight_tags = ethernet(0x8100) + times(7, vlan(0x8100)) + vlan(0x8864) + pppoe(0x0057);
    const Bytes frame = eight_tags + packet;
    REQUIRE(frame.size() - tcp(2).size() + WEIR_TCP_FLAG_BYTES == filter::kMaxLayersBytes);
    std::vector<size_t> cuts;
    for (size_t at = 2000; at < frame.size(); at += 2000) cuts.push_back(at);
    const std::unique_ptr<Packet> one[] = {std::make_unique<Packet>(frame, cuts)};
    Judged judged;
    judge(*snapshot, one, judged);
    CHECK(judged.drop == uint64_t{source == 9});
    CHECK(judged.counters.incomplete.get() == 0);
  }
}
