#include <random>
#include <set>

#include "tests/catch.h"
#include "tests/unit/dataplane/judging.h"

// What the exact stage makes of a rule: chains of residuals, and the keys of flows.
using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

constexpr uint32_t kHost = 0x0a000001;  // 10.0.0.1
constexpr uint8_t kHost6 = 9;           // 2001:db8::9
constexpr uint8_t kSyn = 0x02, kAck = 0x10;

// Two drop lists; their sets are 1 and 2, both are 3.
filter::SnapshotInput two_lists() {
  filter::SnapshotInput input = empty_input(1);
  input.lists = {{"one", WEIR_DROP, WEIR_ENFORCE, 0}, {"two", WEIR_DROP, WEIR_ENFORCE, 0}};
  input.sets = {weir_set{}, set_of({0}), set_of({1}), set_of({0, 1})};
  return input;
}

// Both hosts have this rule.
std::unique_ptr<Snapshot> with_rule(weir_rule rule, const std::vector<weir_residual>& residuals) {
  filter::SnapshotInput input = two_lists();
  input.rules = {weir_rule{}, rule};
  input.residuals.insert(input.residuals.end(), residuals.begin(), residuals.end());
  filter::KeyTable hosts;
  hosts.shape = {4, 32, false};
  hosts.words[0] = {filter::make_key(hosts.shape, Ipv4{kHost}).word[0]};
  hosts.rules = {1};
  filter::KeyTable hosts6;
  hosts6.shape = {6, 128, false};
  const filter::Key key = filter::make_key(hosts6.shape, *parse_ipv6("2001:db8::9"));
  for (size_t w = 0; w < 2; w++) hosts6.words[w] = {key.word[w]};
  hosts6.rules = {1};
  input.tables = {hosts, hosts6};
  return attach(build(input));
}

weir_residual residual(uint16_t asks, bool last = true) {
  weir_residual residual = {};
  residual.set = 1;
  residual.asks = asks;
  residual.last = last;
  return residual;
}

weir_residual expires(uint64_t unix_s) {
  weir_residual r = residual(WEIR_ASKS_EXPIRES);
  r.expires_unix_s = unix_s;
  return r;
}
weir_residual protocol(uint8_t number) {
  weir_residual r = residual(WEIR_ASKS_PROTOCOL);
  r.protocol = number;
  return r;
}
weir_residual sports(uint16_t first, uint16_t last) {
  weir_residual r = residual(WEIR_ASKS_SPORT);
  r.sport = {first, last};
  return r;
}
weir_residual dports(uint16_t first, uint16_t last) {
  weir_residual r = residual(WEIR_ASKS_DPORT);
  r.dport = {first, last};
  return r;
}
weir_residual icmp_is(uint8_t type, uint8_t code) {
  weir_residual r = residual(WEIR_ASKS_ICMP_TYPE | WEIR_ASKS_ICMP_CODE);
  r.icmp_type = type;
  r.icmp_code = code;
  return r;
}
weir_residual flags_are(uint8_t set, uint8_t mask) {
  weir_residual r = residual(WEIR_ASKS_TCP_FLAGS);
  r.tcp_flags = {set, mask};
  return r;
}
weir_residual lengths(uint32_t first, uint32_t last) {
  weir_residual r = residual(WEIR_ASKS_LENGTH);
  r.length = {first, last};
  return r;
}
weir_residual dscps(uint64_t values) {
  weir_residual r = residual(WEIR_ASKS_DSCP);
  r.dscp = {values};
  return r;
}
weir_residual fragments(uint64_t values) {
  weir_residual r = residual(WEIR_ASKS_FRAGMENT);
  r.fragment = {values};
  return r;
}
// The second byte of the IPv4 header.
Bytes with_tos(Bytes frame, uint8_t tos) {
  frame[15] = tos;
  return frame;
}
// The first two bytes of the IPv6 header.
Bytes with_class(Bytes frame, uint8_t traffic_class) {
  frame[14] = static_cast<uint8_t>(0x60 | traffic_class >> 4);
  frame[15] = static_cast<uint8_t>(traffic_class << 4 | 0x0f);
  return frame;
}
weir_residual destinations(Ipv6 first, Ipv6 last) {
  weir_residual r = residual(WEIR_ASKS_DESTINATION);
  r.destination_first[0] = static_cast<uint64_t>(first >> 64);
  r.destination_first[1] = static_cast<uint64_t>(first);
  r.destination_last[0] = static_cast<uint64_t>(last >> 64);
  r.destination_last[1] = static_cast<uint64_t>(last);
  return r;
}

// From the host to 8.8.8.8, or 2001:db8::2.
Bytes from_host(uint8_t number, const Bytes& payload, int total_length = -1, unsigned fragment_field = 0) {
  return ethernet(0x0800) + ipv4({number, payload, kHost, 0x08080808, 0, total_length, fragment_field});
}
Bytes from_host6(uint8_t number, const Bytes& payload) {
  return ethernet(0x86dd) + ipv6({number, payload, kHost6, 2});
}

struct Row {
  const char* name;
  weir_residual residual;
  Bytes frame;
  bool holds;
};

std::vector<Row> rows() {
  const Bytes udp_frame = from_host(kUdp, udp_payload()), syn = from_host(kTcp, tcp(kSyn));
  const Bytes ping = from_host(kIcmp, icmp(8, 3)), ping6 = from_host6(kIcmp6, icmp(128, 0));
  const Ipv6 to6 = *parse_ipv6("2001:db8::2");
  return {
      {"nothing asked", residual(0), udp_frame, true},
      {"protocol", protocol(kUdp), udp_frame, true},
      {"protocol, v6", protocol(kUdp), from_host6(kUdp, udp_payload()), true},
      {"protocol of a later fragment", protocol(kUdp), from_host(kUdp, udp_payload(), -1, 1), true},
      {"another protocol", protocol(kTcp), udp_frame, false},
      {"source port", sports(1111, 1111), udp_frame, true},
      {"source port, first of the range", sports(1111, 2000), udp_frame, true},
      {"source port, last of the range", sports(1, 1111), udp_frame, true},
      {"source port, range above", sports(1112, 65535), udp_frame, false},
      {"source port, range below", sports(1, 1110), udp_frame, false},
      {"destination port", dports(443, 443), udp_frame, true},
      {"destination port, range above", dports(444, 65535), udp_frame, false},
      {"destination port, range below", dports(1, 442), udp_frame, false},
      {"destination port, v6", dports(443, 443), from_host6(kTcp, tcp(kSyn)), true},
      {"every port, but there is none", dports(0, 65535), ping, false},
      {"every port of a later fragment", sports(0, 65535), from_host(kUdp, udp_payload(), -1, 1), false},
      {"icmp", icmp_is(8, 3), ping, true},
      {"icmp, another type", icmp_is(0, 3), ping, false},
      {"icmp, another code", icmp_is(8, 0), ping, false},
      {"icmp6", icmp_is(128, 0), ping6, true},
      {"icmp of a later fragment", icmp_is(8, 3), from_host(kIcmp, icmp(8, 3), -1, 1), false},
      {"icmp, cut", icmp_is(8, 3), from_host(kIcmp, icmp(8, 3), 21), false},
      {"icmp of udp", icmp_is(4, 0x57), udp_frame, false},
      {"syn", flags_are(kSyn, kSyn | kAck), syn, true},
      {"syn and more", flags_are(kSyn, kSyn | kAck), from_host(kTcp, tcp(0xef)), true},
      {"syn ack", flags_are(kSyn, kSyn | kAck), from_host(kTcp, tcp(kSyn | kAck)), false},
      {"no flag at all", flags_are(0, 0xff), from_host(kTcp, tcp(0)), true},
      {"flags, v6", flags_are(kSyn, kSyn), from_host6(kTcp, tcp(kSyn)), true},
      {"flags, cut", flags_are(kSyn, kSyn), from_host(kTcp, tcp(kSyn), 20 + 13), false},
      {"flags of udp", flags_are(0, 0), from_host(kUdp, tcp(kSyn)), false},
      {"length", lengths(28, 28), udp_frame, true},
      {"length, range above", lengths(29, UINT32_MAX), udp_frame, false},
      {"length, range below", lengths(20, 27), udp_frame, false},
      {"length, v6", lengths(48, 48), from_host6(kUdp, udp_payload()), true},
      {"length, v6, range below", lengths(20, 47), from_host6(kUdp, udp_payload()), false},
      {"length, padding is not the packet's", lengths(28, 28), udp_frame + Bytes(18, 0xbb), true},
      {"length, the header says more than is there", lengths(1000, 1000), from_host(kUdp, udp_payload(), 1000), true},
      {"length 0: what is there", lengths(28, 28), from_host(kUdp, udp_payload(), 0), true},
      {"length 0: what is there, padding too", lengths(28, 28), from_host(kUdp, udp_payload(), 0) + Bytes(1), false},
      {"dscp", dscps(uint64_t{1} << 46), with_tos(udp_frame, 46 << 2 | 3), true},
      {"dscp, another", dscps(~(uint64_t{1} << 46)), with_tos(udp_frame, 46 << 2), false},
      {"dscp 63", dscps(uint64_t{1} << 63), with_tos(udp_frame, 63 << 2), true},
      {"dscp 0", dscps(1), udp_frame, true},
      {"dscp, v6", dscps(uint64_t{1} << 46), with_class(from_host6(kUdp, udp_payload()), 46 << 2 | 1), true},
      {"dscp, v6, another", dscps(uint64_t{1} << 46), with_class(from_host6(kUdp, udp_payload()), 45 << 2 | 3), false},
      {"no fragment", fragments(1), udp_frame, true},
      {"no fragment, but one more to come", fragments(1), from_host(kUdp, udp_payload(), -1, 0x2000), false},
      {"first fragment", fragments(2), from_host(kUdp, udp_payload(), -1, 0x2000), true},
      {"first fragment, but it has an offset", fragments(2), from_host(kUdp, udp_payload(), -1, 0x2001), false},
      {"later fragment", fragments(4), from_host(kUdp, udp_payload(), -1, 0x2001), true},
      {"last fragment", fragments(4), from_host(kUdp, udp_payload(), -1, 0x1fff), true},
      {"any fragment, but it is none", fragments(6), from_host(kUdp, udp_payload(), -1, 0x4000), false},
      {"atomic fragment, v6", fragments(1), from_host6(44, fragment(kUdp, 0) + udp_payload()), true},
      {"first fragment, v6", fragments(2), from_host6(44, fragment(kUdp, 1) + udp_payload()), true},
      {"later fragment, v6", fragments(4), from_host6(44, fragment(kUdp, 8) + udp_payload()), true},
      {"destination", destinations(0x08080808, 0x08080808), udp_frame, true},
      {"destination, below", destinations(0, 0x08080807), udp_frame, false},
      {"destination, above", destinations(0x08080809, 0xffffffff), udp_frame, false},
      {"destination, v6", destinations(to6, to6), from_host6(kUdp, udp_payload()), true},
      {"destination, v6, below", destinations(0, to6 - 1), from_host6(kUdp, udp_payload()), false},
      {"destination, v6, above", destinations(to6 + 1, ~Ipv6{0}), from_host6(kUdp, udp_payload()), false},
  };
}

}  // namespace

TEST_CASE("a residual adds its lists when all that it asks holds") {
  for (const Row& row : rows()) {
    INFO(row.name);
    CHECK(drops(*with_rule({0, 0, 1, 0}, {row.residual}), row.frame) == row.holds);
    CHECK_FALSE(drops(*with_rule({0, 0, 0, 1}, {row.residual}), row.frame));  // the host is no destination here
  }
}

TEST_CASE("an entry is live while now is before its end") {
  const std::unique_ptr<Snapshot> snapshot = with_rule({0, 0, 1, 0}, {expires(1'800'000'000)});
  const Bytes frame = from_host(kUdp, udp_payload());
  CHECK(drops(*snapshot, frame, 0));
  CHECK(drops(*snapshot, frame, 1'799'999'999));
  CHECK_FALSE(drops(*snapshot, frame, 1'800'000'000));
  CHECK_FALSE(drops(*snapshot, frame, UINT64_MAX));
}

TEST_CASE("each side has its own chain") {
  weir_residual second = protocol(kUdp);
  second.set = 2;
  const std::unique_ptr<Snapshot> snapshot = with_rule({0, 0, 1, 2}, {protocol(kTcp), second});
  const auto lists_of = [&](const Bytes& frame) {
    Judged judged;
    const std::vector<wire::ListStats> before = snapshot->list_stats();
    judge(*snapshot, std::span(&frame, 1), judged);
    return std::pair(judged.lists[0].matched - before[0].matched, judged.lists[1].matched - before[1].matched);
  };
  const auto to_host = [](uint8_t number, const Bytes& payload) {
    return ethernet(0x0800) + ipv4({number, payload, 0x08080808, kHost});
  };
  using Lists = std::pair<uint64_t, uint64_t>;
  CHECK(lists_of(from_host(kTcp, tcp(kSyn))) == Lists(1, 0));
  CHECK(lists_of(from_host(kUdp, udp_payload())) == Lists(0, 0));
  CHECK(lists_of(to_host(kTcp, tcp(kSyn))) == Lists(0, 0));
  CHECK(lists_of(to_host(kUdp, udp_payload())) == Lists(0, 1));
  CHECK(lists_of(ethernet(0x86dd) + ipv6({kUdp, udp_payload(), 1, kHost6})) == Lists(0, 1));
}

TEST_CASE("a chain is walked to its last residual, and adds to the rule's own lists") {
  const Bytes frame = from_host(kUdp, udp_payload());
  const auto matched = [&](weir_rule rule, const std::vector<weir_residual>& residuals) {
    const std::unique_ptr<Snapshot> snapshot = with_rule(rule, residuals);
    Judged judged;
    judge(*snapshot, std::span(&frame, 1), judged);
    return std::pair(judged.lists[0].matched, judged.lists[1].matched);
  };
  using Lists = std::pair<uint64_t, uint64_t>;
  weir_residual one = protocol(kUdp), two = protocol(kUdp), neither = protocol(kTcp);
  two.set = 2;
  one.last = neither.last = 0;
  CHECK(matched({0, 0, 1, 0}, {one, two}) == Lists(1, 1));
  CHECK(matched({0, 0, 1, 0}, {neither, two}) == Lists(0, 1));
  one.last = 1;
  CHECK(matched({0, 0, 1, 0}, {one, two}) == Lists(1, 0));
  CHECK(matched({0, 0, 2, 0}, {one, two}) == Lists(0, 1));
  CHECK(matched({2, 0, 1, 0}, {one}) == Lists(1, 1));
  neither.last = 1;
  CHECK(matched({2, 0, 1, 0}, {neither}) == Lists(0, 1));

  neither.last = 0;
  std::vector<weir_residual> longest(WEIR_MAX_CHAIN - 1, neither);
  longest.push_back(two);
  CHECK(matched({0, 0, 1, 0}, longest) == Lists(0, 1));
}

namespace {

// Packets of a small world, so that masks make them meet.
struct FlowPacket {
  Ipv6 source, destination;  // IPv4 in the low 32 bits
  uint16_t sport, dport;
  uint8_t protocol;
};

struct World {
  std::mt19937_64 engine{11};
  unsigned below(unsigned n) { return static_cast<unsigned>(engine() % n); }
  // One bit of few, so that each mask keeps some and drops others.
  Ipv6 address(unsigned width) {
    const Ipv6 base = width == 32 ? Ipv6{0x0a000000} : Ipv6{0x20010db8} << 96;
    return base | Ipv6{below(2)} << below(width);
  }
  FlowPacket packet(unsigned width) {
    const uint8_t protocols[] = {kUdp, kTcp, kIcmp, kGre};
    return {address(width), address(width), static_cast<uint16_t>(1 + below(3)), static_cast<uint16_t>(1 + below(3)),
            protocols[below(4)]};
  }
};

Bytes bytes_of(Ipv6 address, unsigned width) {
  Bytes bytes;
  for (unsigned shift = width; shift > 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(address >> (shift - 8)));
  return bytes;
}

Bytes frame_of(const FlowPacket& packet, unsigned width) {
  const Bytes payload = be16(packet.sport) + be16(packet.dport) + Bytes(16);
  Bytes frame = width == 32 ? ethernet(0x0800) + v4_around(packet.protocol, payload)
                            : ethernet(0x86dd) + v6_around(packet.protocol, payload);
  const Bytes addresses = bytes_of(packet.source, width) + bytes_of(packet.destination, width);
  std::copy(addresses.begin(), addresses.end(), frame.begin() + 14 + (width == 32 ? 12 : 8));
  return frame;
}

filter::Key key_of(filter::KeyShape shape, const FlowPacket& packet) {
  const filter::FlowFields fields = {packet.sport, packet.dport, packet.protocol};
  return shape.family == 4 ? filter::make_flow_key(shape, static_cast<Ipv4>(packet.source),
                                                   static_cast<Ipv4>(packet.destination), fields)
                           : filter::make_flow_key(shape, packet.source, packet.destination, fields);
}

std::unique_ptr<Snapshot> with_flows(filter::KeyShape shape, const std::vector<filter::Key>& keys) {
  filter::SnapshotInput input = two_lists();
  input.rules = {weir_rule{}, {1, 0, 0, 0}};
  filter::KeyTable table;
  table.shape = shape;
  for (const filter::Key& key : keys) {
    for (unsigned w = 0; w < filter::key_words(shape); w++) table.words[w].push_back(key.word[w]);
    table.rules.push_back(1);
  }
  input.tables = {table};
  return attach(build(input));
}

}  // namespace

TEST_CASE("flow keys of every kind of shape") {
  World world;
  size_t hits = 0, misses = 0, without_ports = 0;
  for (unsigned round = 0; round < 400; round++) {
    const bool is_v4 = round % 2 == 0;
    const unsigned width = is_v4 ? 32 : 128;
    const auto some_bits = [&] {
      const unsigned bits[] = {0, 1, width / 2, width / 2 + 1, width - 1, width, world.below(width + 1)};
      return static_cast<uint8_t>(bits[world.below(7)]);
    };
    filter::KeyShape shape = {static_cast<uint8_t>(is_v4 ? 4 : 6), some_bits()};
    shape.flow = true;
    shape.destination_bits = some_bits();
    shape.flow_fields = static_cast<uint8_t>(round / 2 % 8);

    std::vector<filter::Key> keys;
    const auto add = [&](const filter::Key& key) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    };
    for (int i = 0; i < 4; i++) add(key_of(shape, world.packet(width)));
    FlowPacket stale = world.packet(width);  // what a packet without ports must not find
    stale.sport = stale.dport = kStalePort;
    add(key_of(shape, stale));
    const std::unique_ptr<Snapshot> snapshot = with_flows(shape, keys);

    const bool asks_ports = (shape.flow_fields & (WEIR_FLOW_SPORT | WEIR_FLOW_DPORT)) != 0;
    std::vector<Bytes> frames;
    uint64_t expected = 0;
    for (uint32_t i = 0; i < kMaxBurst; i++) {
      const FlowPacket packet = i == 0 ? stale : world.packet(width);
      frames.push_back(frame_of(packet, width));
      const bool there = std::find(keys.begin(), keys.end(), key_of(shape, packet)) != keys.end();
      const bool has_key = !asks_ports || (weir_carries(packet.protocol) & WEIR_HAS_PORTS) != 0;
      expected |= uint64_t{there && has_key} << i;
      without_ports += there && !has_key;
      ++(there && has_key ? hits : misses);
    }
    Judged judged;
    judge(*snapshot, frames, judged);
    INFO("round " << round << ": family " << int{shape.family} << ", bits " << int{shape.addr_bits} << " and "
                  << int{shape.destination_bits} << ", fields " << int{shape.flow_fields});
    REQUIRE(judged.drop == expected);
    REQUIRE(judged.lists[0].matched == static_cast<uint64_t>(__builtin_popcountll(expected)));
  }
  CHECK(hits > 1000);
  CHECK(misses > 1000);
  CHECK(without_ports > 100);
}

TEST_CASE("a flow has a direction") {
  filter::KeyShape shape = {4, 32};
  shape.flow = true;
  shape.destination_bits = 32;
  const FlowPacket flow = {1, 2, 3, 4, kUdp};
  const std::unique_ptr<Snapshot> snapshot = with_flows(shape, {key_of(shape, flow)});
  CHECK(drops(*snapshot, frame_of(flow, 32)));
  CHECK_FALSE(drops(*snapshot, frame_of({2, 1, 4, 3, kUdp}, 32)));
}
