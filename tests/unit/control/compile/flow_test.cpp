// Flows: which key each gets, and that the finished snapshot answers what they say.

#include <algorithm>

#include "control/compile/plan/flow_index.h"
#include "control/compile/prove/chance.h"
#include "control/compile/prove/lookup.h"
#include "control/compile/prove/prove.h"
#include "filter/probe/dispatch.h"
#include "tests/rounds.h"
#include "tests/unit/control/compile/build_unproven.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

using Catch::Matchers::ContainsSubstring;

AddressRange range(Ipv6 first, Ipv6 last) {
  return {first, last};
}
AddressRange host(Ipv6 address) {
  return {address, address};
}
AddressRange net4(Ipv4 address, unsigned bits) {
  return {address, address | static_cast<Ipv4>(~prefix_mask<Ipv4>(bits))};
}
PortRange port(uint16_t value) {
  return {value, value};
}

Policy policy_of(std::vector<Flow> flows) {
  Policy policy = make_policy({make_list("flows", WEIR_DROP, kSource, {})});
  for (size_t i = 0; i < flows.size(); i++) flows[i].line = static_cast<uint32_t>(i + 10);
  edit(policy.lists[0])->flows = std::move(flows);
  return policy;
}

Merged indexed(const Policy& policy) {
  Merged merged = merge(policy);
  const auto done = index_flows(policy, merged);
  if (!done) FAIL(done.error());
  return merged;
}

size_t prefixes_of(const Merged& merged, unsigned bits) {
  return merged.v4.any_port[bits].size();
}

void prove_built(const Policy& policy, uint64_t seed) {
  const BuiltSnapshot snapshot = build_unproven(policy, seed);
  const auto kernels = filter::choose_kernels();
  REQUIRE(kernels);
  const auto proof = prove_flows(policy, snapshot.view(), **kernels, seed);
  INFO((proof ? "" : proof.error()));
  REQUIRE(proof);
}

}  // namespace

TEST_CASE("few flows of an address stand under it; what is left becomes a residual") {
  Flow flow;
  flow.family = 4;
  flow.src = net4(0x0a000000, 8);
  flow.dst = host(0xcb007109);
  flow.protocol = 6;
  flow.dport = PortRange{8000, 8010};
  const Merged merged = indexed(policy_of({flow}));
  REQUIRE(merged.flow_tables.empty());
  REQUIRE(prefixes_of(merged, 32) == 1);
  CHECK(merged.v4.any_port[32][0].address == 0xcb007109);

  filter::SnapshotInput input;
  input.tables.emplace_back().rules = {merged.v4.any_port[32][0].rule};
  merged.book.write(input);
  REQUIRE(input.residuals.size() == 2);
  const weir_residual& residual = input.residuals[1];
  CHECK(residual.asks == (WEIR_ASKS_SOURCE | WEIR_ASKS_PROTOCOL | WEIR_ASKS_DPORT));  // the key says the destination
  CHECK(residual.source_first[1] == 0x0a000000);
  CHECK(residual.source_last[1] == 0x0affffff);
  CHECK(residual.dport.last == 8010);
  CHECK(residual.last == 1);
  const weir_rule& rule = input.rules[input.tables[0].rules[0]];
  CHECK(rule.destination_chain == 1);
  CHECK(rule.source_chain == 0);
  prove_built(policy_of({flow}), 1);
}

TEST_CASE("a range that is no prefix is looked up by the prefix around it, and asked for exactly") {
  Flow flow;
  flow.family = 4;
  flow.src = range(0x0a0000fe, 0x0a000103);  // around it: 10.0.0.0/23
  flow.protocol = 17;
  const Policy policy = policy_of({flow});
  const Merged merged = indexed(policy);
  REQUIRE(prefixes_of(merged, 23) == 1);
  CHECK(merged.v4.any_port[23][0].address == 0x0a000000);
  const BuiltSnapshot snapshot = build_unproven(policy, 2);
  for (uint32_t address = 0x0a0000f0; address < 0x0a000110; address++) {
    weir_packet packet = {};
    packet.family = 4;
    packet.protocol = 17;
    packet.address[0][0] = __builtin_bswap32(address);
    INFO(std::hex << address);
    CHECK(has_list(match(snapshot.view(), packet, 0), 0) == (address >= 0x0a0000fe && address <= 0x0a000103));
  }
}

TEST_CASE("many flows of one server get a shape of all that they name") {
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 1000; i++) {
    Flow flow;
    flow.family = 4;
    flow.src = host(0x0a000000 + i % 40);
    flow.dst = host(0xcb007109);
    flow.protocol = 6;
    flow.sport = port(static_cast<uint16_t>(1000 + i / 40));
    flow.dport = port(443);
    flows.push_back(flow);
  }
  const Policy policy = policy_of(flows);
  const Merged merged = indexed(policy);
  REQUIRE(merged.flow_tables.size() == 1);
  const FlowTable& table = merged.flow_tables[0];
  CHECK(table.keys.shape ==
        filter::KeyShape{4, 32, false, true, 32, WEIR_FLOW_PROTOCOL | WEIR_FLOW_SPORT | WEIR_FLOW_DPORT});
  CHECK(table.keys.rules.size() == 1000);
  CHECK(table.flows == 1000);
  CHECK(merged.book.longest_chain() == 0);  // the key says it all
  prove_built(policy, 3);
}

TEST_CASE("flows without an address get shapes of ports and protocol, of both families") {
  Flow dns;
  dns.protocol = 17;
  dns.dport = port(53);
  Flow gre;
  gre.protocol = 47;
  const Policy policy = policy_of({dns, gre});
  const Merged merged = indexed(policy);
  CHECK(merged.flow_tables.size() == 4);  // joined, every packet would have the key
  prove_built(policy, 4);
}

TEST_CASE("flows of more kinds than there are shapes for share coarser keys") {
  std::vector<Flow> flows;
  for (unsigned src = 16; src <= 32; src++) {
    for (unsigned dst = 16; dst <= 32; dst++) {
      for (unsigned i = 0; i < 20; i++) {  // more than an address takes
        Flow flow;
        flow.family = 4;
        flow.src = net4(prefix_mask<Ipv4>(src) & 0x0a141e28, src);
        flow.dst = net4(prefix_mask<Ipv4>(dst) & 0xc0a80101, dst);
        if (i % 2 == 0) flow.protocol = 6;
        flow.dport = port(static_cast<uint16_t>(100 + i));
        flows.push_back(flow);
      }
    }
  }
  const Policy policy = policy_of(flows);
  const Merged merged = indexed(policy);
  CHECK(merged.flow_tables.size() <= kMaxFlowShapes);
  CHECK(merged.flow_tables.size() >= 1);
  CHECK(merged.book.longest_chain() <= WEIR_MAX_CHAIN);
  prove_built(policy, 5);
}

TEST_CASE("a snapshot holds the residuals of its keys, and none that were made on the way") {
  std::vector<Flow> flows;
  for (uint32_t host_number = 0; host_number < 100; host_number++) {
    for (unsigned i = 0; i < 16; i++) {
      Flow flow;
      flow.family = 4;
      flow.dst = host(0x0a000000 + host_number);
      flow.dport = PortRange{static_cast<uint16_t>(100 * i + 1), static_cast<uint16_t>(100 * i + 50)};
      flows.push_back(flow);
    }
  }
  const Policy policy = policy_of(flows);
  const BuiltSnapshot snapshot = build_unproven(policy, 12);
  CHECK(snapshot.header().n_residuals == 1 + 16);  // all hosts share one chain
  CHECK(snapshot.header().n_rules == 2);
  CHECK(snapshot.header().n_sets == 2);
  prove_built(policy, 12);
}

TEST_CASE("very many kinds of which many meet at coarser keys") {
  std::vector<Flow> flows;
  for (unsigned i = 0; i < 100; i++) {  // hosts side by side: at most 64 of them under a rounded prefix
    for (unsigned j = 0; j < 20; j++) {
      Flow flow;
      flow.family = 6;
      flow.src = host((Ipv6{0x20010db8} << 96) + i);
      flow.dst = host((Ipv6{0x20010db8} << 96) + 7);
      flow.dport = port(static_cast<uint16_t>(1000 + j));
      flows.push_back(flow);
    }
  }
  for (unsigned src = 16; src < 32; src++) {
    for (unsigned dst = 16; dst < 32; dst++) {
      Flow flow;
      flow.family = 6;
      const Ipv6 base = Ipv6{0x20010db8} << 96;
      const auto net = [&](unsigned bits) {
        const Ipv6 first = base & prefix_mask<Ipv6>(bits);
        return AddressRange{first, first | static_cast<Ipv6>(~prefix_mask<Ipv6>(bits))};
      };
      flow.src = net(src);
      flow.dst = net(dst);
      flow.protocol = static_cast<uint8_t>(src);
      for (unsigned i = 0; i < 17; i++) {
        flow.sport = port(static_cast<uint16_t>(1 + i));
        flows.push_back(flow);
      }
    }
  }
  const Policy policy = policy_of(flows);
  const Merged merged = indexed(policy);
  CHECK(merged.book.longest_chain() <= WEIR_MAX_CHAIN);
  prove_built(policy, 13);
}

TEST_CASE("very many kinds are rounded, but not where a key would then have more flows than a chain takes") {
  std::vector<Flow> flows;
  for (unsigned src = 9; src <= 24; src++) {
    for (unsigned dst = 9; dst <= 24; dst++) {
      for (unsigned i = 0; i < 2; i++) {
        Flow flow;
        flow.family = 4;
        flow.src = net4(prefix_mask<Ipv4>(src) & 0x0a141e28, src);
        flow.dst = net4(prefix_mask<Ipv4>(dst) & 0xc0a80101, dst);
        flow.dport = PortRange{static_cast<uint16_t>(100 + i), 200};
        flows.push_back(flow);
      }
    }
  }
  const Policy policy = policy_of(flows);
  const Merged merged = indexed(policy);
  CHECK(merged.book.longest_chain() <= WEIR_MAX_CHAIN);
  prove_built(policy, 11);
}

TEST_CASE("more entries that differ only in what no key can hold than a chain takes are refused, with the place") {
  std::vector<Flow> flows;
  for (unsigned i = 0; i <= WEIR_MAX_CHAIN; i++) {
    Flow flow;
    flow.family = 4;
    flow.src = host(0x0a000001);
    flow.dst = host(0x0a000002);
    flow.dport = PortRange{static_cast<uint16_t>(100 * i + 1), static_cast<uint16_t>(100 * i + 7)};
    flows.push_back(flow);
  }
  const Policy policy = policy_of(flows);
  Merged merged = merge(policy);
  const auto refused = index_flows(policy, merged);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error(), ContainsSubstring("65 entries") && ContainsSubstring("list flows (weir.yaml:10)") &&
                                  ContainsSubstring("hint: "));

  flows.pop_back();
  prove_built(policy_of(flows), 6);

  for (Flow& flow : flows) flow.dport = PortRange{7, 9};  // all ask the same
  flows.push_back(flows[0]);
  prove_built(policy_of(flows), 7);
}

TEST_CASE("the proof notices a residual that is wrong") {
  Flow flow;
  flow.family = 4;
  flow.protocol = 6;
  flow.tcp_flags = {2, 18};
  std::vector<Flow> flows;  // 50 destinations, one residual
  for (Ipv4 i = 0; i < 50; i++) {
    flow.dst = host(0xcb007100 + i);
    flows.push_back(flow);
  }
  const Policy policy = policy_of(flows);
  const auto kernels = filter::choose_kernels();
  REQUIRE(kernels);
  const auto proof_after = [&](auto damage) {
    const BuiltSnapshot snapshot = build_unproven(policy, 8);
    damage(snapshot.at<weir_residual>(snapshot.header().residuals.offset)[1]);
    const auto proof = prove_flows(policy, snapshot.view(), **kernels, 8);
    return proof ? std::string() : proof.error();
  };
  CHECK(proof_after([](weir_residual&) {}).empty());
  CHECK_THAT(proof_after([](weir_residual& r) { r.tcp_flags.set = 0; }),
             ContainsSubstring("does not match a packet made from it"));
  CHECK_THAT(proof_after([](weir_residual& r) { r.protocol = 17; }), ContainsSubstring("weir.yaml:10"));
  CHECK_THAT(proof_after([](weir_residual& r) { r.asks &= ~WEIR_ASKS_TCP_FLAGS; }), ContainsSubstring("do not name"));
}

TEST_CASE("entries that expire: each list's last one counts, and none beside a lasting one") {
  Policy policy = make_policy({make_list("a", WEIR_DROP, kEither, {"192.0.2.1", "192.0.2.1", "192.0.2.0/24"}),
                               make_list("b", WEIR_DROP, kSource, {"192.0.2.1:443", "2001:db8::1"})});
  edit(policy.lists[0])->v4[0].expires = 100;
  edit(policy.lists[0])->v4[1].expires = 200;
  edit(policy.lists[0])->v4[2].expires = 50;
  edit(policy.lists[1])->v4[0].expires = 300;
  edit(policy.lists[1])->v6[0].expires = 400;
  const BuiltSnapshot snapshot = build_unproven(policy, 9);
  weir_packet packet = {};
  packet.family = 4;
  packet.protocol = 6;
  packet.has = WEIR_HAS_PORTS;
  packet.port[0] = __builtin_bswap16(443);
  const auto lists_at = [&](uint64_t now) { return match(snapshot.view(), packet, now).lists[0]; };
  packet.address[0][0] = __builtin_bswap32(0xc0000201);
  CHECK(lists_at(49) == 3);
  CHECK(lists_at(199) == 3);
  CHECK(lists_at(200) == 2);
  CHECK(lists_at(299) == 2);
  CHECK(lists_at(300) == 0);
  packet.address[0][0] = __builtin_bswap32(0xc0000299);
  CHECK(lists_at(49) == 1);
  CHECK(lists_at(50) == 0);
  packet = {};
  packet.family = 6;
  packet.address[0][0] = __builtin_bswap64(0x20010db800000000);
  packet.address[0][1] = __builtin_bswap64(1);
  CHECK(lists_at(399) == 2);
  CHECK(lists_at(400) == 0);
  std::swap(packet.address[0], packet.address[1]);  // list b compares sources
  CHECK(lists_at(399) == 0);

  const auto proof = prove(policy, snapshot.bytes(), 10);
  INFO((proof ? "" : proof.error()));
  CHECK(proof);
}

TEST_CASE("a residual that never ends, or ends too soon, is noticed") {
  Policy policy = make_policy({make_list("a", WEIR_DROP, kSource, {"192.0.2.1"})});
  edit(policy.lists[0])->v4[0].expires = 2'000'000'000;
  const auto proof_after = [&](auto damage) {
    const BuiltSnapshot snapshot = build_unproven(policy, 14);
    damage(snapshot.at<weir_residual>(snapshot.header().residuals.offset)[1]);
    const auto proof = prove(policy, snapshot.bytes(), 14);
    return proof ? std::string() : proof.error();
  };
  CHECK(proof_after([](weir_residual&) {}).empty());
  CHECK_THAT(proof_after([](weir_residual& r) { r.asks = 0; }), ContainsSubstring("matches for longer than it should"));
  CHECK_THAT(proof_after([](weir_residual& r) { r.expires_unix_s--; }),
             ContainsSubstring("does not match before it expires"));
}

TEST_CASE("canaries: flows that name them, and what passes them only for a time") {
  Policy policy = make_policy({make_list("allow", WEIR_PASS, kEither, {"203.0.113.9"}),
                               make_list("drop", WEIR_DROP, kEither, {"203.0.113.0/24"})});
  policy.canaries.push_back({false, 0xcb007109, 0, "203.0.113.9"});
  const auto proof = [&] {
    const BuiltSnapshot snapshot = build_unproven(policy, 15);
    snapshot.header().built_unix_s = 1'800'000'000;
    const auto proven = prove(policy, snapshot.bytes(), 15);
    return proven ? std::string() : proven.error();
  };
  CHECK(proof().empty());
  edit(policy.lists[0])->v4[0].expires = 1'800'000'001;
  CHECK_THAT(proof(),
             ContainsSubstring("canary 203.0.113.9 would drop as source, from 2027-01-15T08:00:01Z on: list drop"));
  edit(policy.lists[1])->v4[0].expires = 1'800'000'001;  // ends with it
  CHECK(proof().empty());

  policy.lists = {make_list("drop", WEIR_DROP, kDestination, {"203.0.113.9:443"})};
  CHECK_THAT(proof(), ContainsSubstring("canary 203.0.113.9 would drop as destination with port 443: list drop, entry "
                                        "203.0.113.9:443 (weir.yaml:10)"));

  Flow flow;
  flow.family = 4;
  flow.dst = net4(0xcb007100, 25);
  flow.protocol = 6;
  flow.dport = port(22);
  flow.line = 77;
  policy.lists = {make_list("drop", WEIR_DROP, kEither, {})};
  edit(policy.lists[0])->flows.push_back(flow);
  CHECK_THAT(proof(),
             ContainsSubstring("canary 203.0.113.9 would drop as destination: list drop, entry dst 203.0.113.0/25 tcp "
                               "dport 22 (weir.yaml:77)"));
  policy.lists[0].mode = WEIR_MONITOR;
  CHECK(proof().empty());
  policy.lists[0].mode = WEIR_ENFORCE;
  edit(policy.lists[0])->flows[0].expires = 1'700'000'000;
  CHECK(proof().empty());
  edit(policy.lists[0])->flows[0].expires = kNever;
  edit(policy.lists[0])->flows[0].dst = net4(0xcb007180, 25);
  CHECK(proof().empty());
}

TEST_CASE("snapshots of random flows answer what the flows say") {
  for (uint64_t seed = 1; seed <= rounds(200); seed++) {
    SplitMix random{seed};
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random.next() % n); };
    const auto some = [&](auto value) { return below(2) == 0 ? std::optional(value) : std::nullopt; };
    const auto some_range = [&](uint8_t family) -> std::optional<AddressRange> {
      if (below(3) == 0) return std::nullopt;
      const Ipv6 base = family == 4 ? Ipv6{0x0a000000} : Ipv6{0x20010db8} << 96;
      const unsigned shift = family == 4 ? below(20) : below(90);
      const Ipv6 first = base + (Ipv6{below(16)} << shift);
      return AddressRange{first, first + (Ipv6{below(3)} << below(shift + 1))};
    };
    std::vector<Flow> flows;
    for (unsigned n = 1 + below(seed % 10 == 0 ? 300 : 30); n > 0; n--) {
      Flow flow;
      flow.family = below(2) == 0 ? 4 : 6;
      flow.src = some_range(flow.family);
      flow.dst = some_range(flow.family);
      if (!flow.src && !flow.dst) flow.family = 0;
      flow.protocol = some(static_cast<uint8_t>(6 + 11 * below(2)));
      const auto first_port = static_cast<uint16_t>(1 + below(5));
      flow.sport = some(PortRange{first_port, static_cast<uint16_t>(first_port + below(2))});
      flow.dport = some(PortRange{first_port, first_port});
      if (!flow.sport && !flow.dport && below(3) == 0) {
        flow.protocol = std::nullopt;
        flow.icmp_type = some(static_cast<uint8_t>(below(3)));
        flow.icmp_code = some(static_cast<uint8_t>(below(3)));
      } else if (flow.protocol == 6 && below(2) == 0) {
        const auto mask = static_cast<uint8_t>(1 + below(255));
        flow.tcp_flags = {static_cast<uint8_t>(random.next() & mask), mask};
      }
      if (below(5) == 0) flow.expires = 1 + below(1000);
      flows.push_back(flow);
    }
    Policy policy = policy_of(flows);
    policy.lists.push_back(make_list("hosts", below(2) == 0 ? WEIR_PASS : WEIR_DROP, kEither,
                                     {"10.0.0.1", "10.0.0.0/28", "2001:db8::/64", "10.0.0.2:3"}));
    INFO("seed " << seed);
    prove_built(policy, seed);
  }
}

}  // namespace weir::control
