// Which gates the planner chooses, and what it says about them.

#include "control/compile/plan/gates.h"

#include <cmath>
#include <set>

#include "control/compile/compile.h"
#include "control/compile/plan/gate_load.h"
#include "control/compile/plan/plan.h"
#include "control/compile/reuse.h"
#include "filter/format/gate.h"
#include "tests/unit/control/compile/build_unproven.h"
#include "tests/unit/control/compile/make_policy.h"
#include "tests/unit/filter/inputs.h"

namespace weir::control {
namespace {

using Catch::Matchers::ContainsSubstring;
using Tables = std::vector<filter::GateChoice::Table>;

constexpr double kNoLimit = 1e18;
constexpr filter::KeyShape kHostShape = {4, 32, false};

// n hosts anywhere, each once, with a rule of inputs.h: 1 is source only, 2 destination only, 3 both.
filter::KeyTable random_hosts(size_t n, uint32_t rule) {
  filter::test::Random random(n);
  std::vector<uint32_t> hosts;
  for (size_t i = 0; i < n; i++) hosts.push_back(static_cast<uint32_t>(random.next()));
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  filter::KeyTable table;
  for (const uint32_t host : hosts) table.words[0].push_back(filter::make_key(kHostShape, host).word[0]);
  table.rules.assign(hosts.size(), rule);
  return table;
}

filter::SnapshotInput input_of(std::vector<filter::KeyTable> tables) {
  filter::SnapshotInput input = filter::test::empty_input();
  input.tables = std::move(tables);
  return input;
}

// The tables of IPv4 sources for so many random hosts.
Tables for_hosts(size_t n, bool is_of_xdp = false) {
  filter::SnapshotInput input = input_of({random_hosts(n, 1)});
  choose_gates(input, kNoLimit);
  return (is_of_xdp ? input.xdp_gates : input.gates)[0].tables;
}

double bytes_of(filter::GateChoice::Table table) {
  return static_cast<double>(weir_gate_table_words(table.prefix_bits, table.n_words)) * 8;
}

Policy hosts_policy(unsigned n) {
  Policy policy = make_policy({make_list("hosts", WEIR_DROP, kSource, {})});
  ListDraft draft;
  filter::test::Random random(n);
  for (unsigned i = 0; i < n; i++) {
    const auto host = static_cast<Ipv4>(random.next());
    draft.v4.push_back({host, host, i + 1, 0, kSource, 1});
  }
  policy.lists[0].content = make_entries(std::move(draft));
  return policy;
}

}  // namespace

TEST_CASE("gates grow with what they must tell apart") {
  double before = 0;
  for (const size_t n : {10u, 1000u, 10'000u, 100'000u, 1'000'000u}) {
    const Tables data_plane = for_hosts(n), xdp = for_hosts(n, true);
    INFO(n << " hosts");
    REQUIRE(data_plane.size() == 1);
    CHECK(bytes_of(data_plane[0]) <= (n <= 1000 ? 1 << 18 : 1 << 23));
    REQUIRE(xdp.size() == 1);
    CHECK(bytes_of(xdp[0]) <= std::max(8192.0, 16.0 * static_cast<double>(n)));
    CHECK(bytes_of(xdp[0]) >= before);
    before = bytes_of(xdp[0]);
  }
}

// One packet at a time, in pages of 4 KiB: hosts take words there, and networks a direct table of few bits.
TEST_CASE("XDP's gates are small, and let few strangers through") {
  filter::SnapshotInput input = input_of({random_hosts(200'000, 3)});
  input.networks = {{0x0a0000, 0x0affff, 3}, {0x0b0000, 0x0bffff, 3}};
  choose_gates(input, kNoLimit);
  const Tables& tables = input.xdp_gates[0].tables;
  REQUIRE(tables.size() == 2);
  CHECK((tables[0].n_words == 0 && tables[0].prefix_bits <= 18));
  CHECK((tables[1].prefix_bits == 32 && tables[1].n_words != 0));
  CHECK(bytes_of(tables[1]) < 1e6);
  CHECK(input.xdp_gates[0].tables == input.xdp_gates[1].tables);
}

TEST_CASE("only planes that enforce the policy get gates") {
  Policy policy = hosts_policy(1000);
  const auto tables = [&](TargetKind kind, bool of_xdp) {
    policy.gates_for = bit_of(kind);
    const auto compiled = compile(policy, {1, 1});
    REQUIRE(compiled);
    size_t n = 0;
    for (const GateReport& gate : compiled->report.gates) {
      if (gate.is_of_xdp != of_xdp) continue;
      n += gate.gate.n_tables;
      if (of_xdp != (kind == TargetKind::xdp) && gate.gate.kind == WEIR_GATE_OPEN)
        CHECK(gate.why == "no target of this plane");
    }
    return n;
  };
  CHECK(tables(TargetKind::dataplane, false) > 0);
  CHECK(tables(TargetKind::dataplane, true) == 0);
  CHECK(tables(TargetKind::xdp, true) > 0);
  CHECK(tables(TargetKind::xdp, false) == 0);
  // Another kind of target takes another snapshot.
  Policy both = policy;
  both.gates_for = kAllKinds;
  CHECK(settings_digest(both) != settings_digest(policy));
  CHECK(inputs_digest(both) != inputs_digest(policy));
}

TEST_CASE("a gate at which something stands for every address is open, and says why") {
  filter::SnapshotInput any = input_of({random_hosts(100, 1)});
  any.networks = {{0, (1 << 24) - 1, 1}};  // 0.0.0.0/0 as source
  const GateReasons why = choose_gates(any, kNoLimit);
  CHECK(any.gates[0].tables.empty());
  CHECK_THAT(why[0], ContainsSubstring("would let 100 % through"));
  CHECK_THAT(why[1], ContainsSubstring("nothing is looked up at this side"));

  filter::SnapshotInput most = input_of({});
  for (uint32_t first = 1; first + 20 < 1 << 24; first += 20) most.networks.push_back({first, first + 18, 1});
  CHECK_THAT(choose_gates(most, kNoLimit)[0], ContainsSubstring("the best table would let 95 % through"));
  CHECK(most.gates[0].tables.empty());
}

TEST_CASE("a flow without addresses opens one gate only, and all that do not care stand there") {
  filter::test::Random random(1);
  filter::SnapshotInput input = input_of(
      {random_hosts(1000, 3), filter::test::random_table({4, 0, false, true, 0, WEIR_FLOW_DPORT}, 10, 2, random),
       filter::test::random_table({4, 0, false, true, 0, WEIR_FLOW_SPORT}, 10, 2, random),
       filter::test::random_table({6, 0, false, true, 0, WEIR_FLOW_SPORT}, 10, 2, random)});
  const GateReasons why = choose_gates(input, kNoLimit);
  const unsigned open = input.tables[1].gate_side;
  CHECK(input.tables[2].gate_side == open);
  CHECK(input.gates[open].tables.empty());
  CHECK(input.gates[1 - open].tables.size() == 1);
  CHECK_THAT(why[open], ContainsSubstring("whatever the address"));
}

TEST_CASE("a flow stands at the side that lets less through") {
  for (const unsigned narrow : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    filter::KeyTable flows;
    flows.shape = {4, 32, false, true, 32, WEIR_FLOW_PROTOCOL};
    filter::test::Random random(2);
    for (uint64_t i = 0; i < 200'000; i++) {  // from anywhere to one of ten hosts, or back
      const uint64_t wide = random.next() & UINT32_MAX, few = i % 10;
      flows.words[0].push_back(narrow == WEIR_SIDE_SOURCE ? few | wide << 32 : wide | few << 32);
      flows.words[1].push_back(uint64_t{6} << 32);
      flows.rules.push_back(1);
    }
    filter::SnapshotInput input = input_of({flows});
    choose_gates(input, kNoLimit);
    CHECK(input.tables[0].gate_side == narrow);
    REQUIRE(input.gates[narrow].tables.size() == 1);
    CHECK(bytes_of(input.gates[narrow].tables[0]) <= 1 << 18);
  }
}

TEST_CASE("gates of IPv6 look at as many bits as the keys have") {
  filter::test::Random random(3);
  const auto tables_for = [&](std::vector<filter::KeyShape> shapes) {
    filter::SnapshotInput input = filter::test::empty_input();
    for (const filter::KeyShape shape : shapes) {
      input.tables.push_back(filter::test::random_table(shape, shape.addr_bits < 16 ? 500 : 5000, 2, random));
    }
    choose_gates(input, kNoLimit);
    CHECK(filter::plan_snapshot(input));
    return input.gates[weir_gate_number(6, WEIR_SIDE_SOURCE)].tables;
  };
  const Tables hosts = tables_for({{6, 128, false}});
  REQUIRE(hosts.size() == 1);
  CHECK(hosts[0].prefix_bits == 64);
  CHECK(bytes_of(hosts[0]) <= 1 << 19);
  const Tables mixed = tables_for({{6, 128, false}, {6, 48, false}, {6, 128, true}});
  CHECK(mixed.size() <= 2);
  CHECK(mixed[0].prefix_bits == 48);
  for (const Tables& tables : {tables_for({{6, 24, false}}), tables_for({{6, 12, false}, {6, 64, false}})}) {
    CHECK(tables.size() <= 2);  // they cover many announced networks: open or not, the format holds it
  }
}

TEST_CASE("gates leave the memory to the shapes") {
  Policy policy = hosts_policy(200'000);
  const Result<Planned> free = plan(merge(policy), policy);
  REQUIRE(free);
  const double gates = gate_bytes(free->layout.header);
  CHECK(gates > 0);
  const uint64_t shapes = free->layout.header.total_bytes - static_cast<uint64_t>(gates);

  policy.memory_bytes = shapes + static_cast<uint64_t>(gates) / 2;
  const Result<Planned> less = plan(merge(policy), policy);
  REQUIRE(less);
  CHECK(less->layout.header.total_bytes <= policy.memory_bytes);
  CHECK(less->layout.header.gates[0].kind == WEIR_GATE_TABLES);
  CHECK(less->layout.header.shapes[0].filter.size_bytes == free->layout.header.shapes[0].filter.size_bytes);

  policy.memory_bytes = shapes;
  const Result<Planned> none = plan(merge(policy), policy);
  REQUIRE(none);
  CHECK(none->layout.header.total_bytes == shapes);
  CHECK(none->layout.header.gates[0].kind == WEIR_GATE_OPEN);
  CHECK_THAT(none->gates[0], ContainsSubstring("no room"));
}

TEST_CASE("the same policy gets the same gates") {
  const Policy policy = hosts_policy(50'000);
  const Result<Planned> one = plan(merge(policy), policy), two = plan(merge(policy), policy);
  REQUIRE(one);
  REQUIRE(two);
  CHECK(memcmp(one->layout.header.gates, two->layout.header.gates, sizeof one->layout.header.gates) == 0);
  CHECK(one->gates == two->gates);
}

TEST_CASE("what a compilation says about its gates is what it counted") {
  const Policy policy = hosts_policy(100'000);
  const Result<Compiled> compiled = compile(policy, {1, 1});
  INFO((compiled ? "" : compiled.error()));
  REQUIRE(compiled);
  REQUIRE(compiled->report.gates.size() == 2 * WEIR_GATES);
  const GateReport& source = compiled->report.gates[0];
  CHECK(source.name == "v4 src");
  REQUIRE(source.gate.kind == WEIR_GATE_TABLES);
  const weir_gate_table& table = source.gate.table[0];
  REQUIRE(table.n_words == 0);
  CHECK(source.expected_share == Approx(std::ldexp(static_cast<double>(table.n_set), -int{table.prefix_bits})));
  CHECK(source.expected_share < 0.1);
  CHECK(*source.measured_share == Approx(source.expected_share).margin(0.005));
  CHECK_THAT(source.why, ContainsSubstring("ns a packet against"));
  const GateReport& closed = compiled->report.gates[3];
  CHECK(closed.name == "v6 dst");
  CHECK(closed.gate.kind == WEIR_GATE_CLOSED);
  CHECK(closed.expected_share == 0);
  CHECK(*closed.measured_share == 0);
  const GateReport& of_xdp = compiled->report.gates[WEIR_GATES];
  CHECK(of_xdp.name == "v4 src, XDP");
  REQUIRE(of_xdp.gate.table[0].n_words != 0);
  CHECK(of_xdp.expected_share < 0.05);
  CHECK(*of_xdp.measured_share == Approx(of_xdp.expected_share).margin(0.005));
}

TEST_CASE("loads of gates: prefixes are counted as sets have them") {
  filter::test::Random random(4);
  const std::vector<weir_rule> rules = filter::test::empty_input().rules;
  for (const filter::KeyShape shape :
       {filter::KeyShape{4, 32, false}, {4, 20, true}, {6, 64, false}, {6, 40, false}, {4, 24, false, true, 16, 7}}) {
    const filter::KeyTable table = filter::test::random_table(shape, 3000, 4, random);
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      const GateLoad load = load_of(table, side, rules);
      const bool second = shape.flow && side == WEIR_SIDE_DESTINATION;
      REQUIRE(load.bits == (second ? shape.destination_bits : shape.addr_bits));
      for (unsigned b = 1; b <= load.bits; b += 3) {
        std::set<uint64_t> prefixes;
        for (size_t i = 0; i < table.rules.size(); i++) {
          if (!shape.flow && (filter::sides_of(rules[table.rules[i]]) >> side & 1) == 0) continue;
          const uint64_t address =
              shape.family == 6 ? weir_gate_address_v6(table.words[0][i])
                                : weir_gate_address_v4(static_cast<uint32_t>(table.words[0][i] >> (second ? 32 : 0)));
          prefixes.insert(address >> (64 - b));
        }
        CHECK(load.prefixes[b] == static_cast<double>(prefixes.size()));
      }
    }
  }
  const GateLoad networks = load_of({{0, 0, 1}, {1, 1, 2}, {3, 9, 1}, {1 << 20, (1 << 21) - 1, 3}}, 0, rules);
  CHECK(networks.prefixes[24] == 1 + 7 + (1 << 20));
  CHECK(networks.prefixes[22] == 3 + (1 << 18));  // 0-3, 4-7, 8-9
  CHECK(networks.prefixes[1] == 1);
  CHECK(networks.covered(25) == 2 * networks.prefixes[24]);
}

}  // namespace weir::control
