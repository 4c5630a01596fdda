#include <bit>
#include <cmath>

#include "filter/build/gates.h"
#include "filter/format/gate.h"
#include "tests/unit/filter/support.h"

using namespace weir::filter;
using namespace weir::filter::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using Tables = std::vector<GateChoice::Table>;

// A random address of those that key i covers on this side, as a gate sees it: behind the key's bits anything.
uint64_t address_in(const KeyTable& table, size_t i, unsigned side, Random& random) {
  const bool destination = table.shape.flow && side == WEIR_SIDE_DESTINATION;
  const Key key = key_at(table, i);
  const unsigned bits = destination ? table.shape.destination_bits : table.shape.addr_bits;
  const uint64_t behind = bits >= 64 ? 0 : random.next() >> bits;
  const uint64_t address = table.shape.family == 6
                               ? weir_gate_address_v6(key.word[destination ? 2 : 0])
                               : weir_gate_address_v4(static_cast<uint32_t>(key.word[0] >> (destination ? 32 : 0)));
  return address | behind;
}

// Keys that do not get through a gate at which they stand.
size_t kept_out(const SnapshotInput& input, const SnapshotView& view, Random& random) {
  size_t n = 0;
  for (const KeyTable& table : input.tables) {
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      if (table.shape.flow && table.gate_side != side) continue;
      for (size_t i = 0; i < table.rules.size(); i++) {
        const uint8_t sides = sides_of(input.rules[table.rules[i]]);
        if (!table.shape.flow && (sides >> side & 1) == 0) continue;
        n += !passes_gate(view.gate(table.shape.family, side), address_in(table, i, side, random));
      }
    }
  }
  for (const NetworkRun& run : input.networks) {
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      if ((sides_of(input.rules[run.rule]) >> side & 1) == 0) continue;
      for (uint32_t network = run.first; network <= run.last; network++) {
        const auto address = static_cast<uint32_t>(network << 8 | random.below(256));
        n += !passes_gate(view.gate(4, side), uint64_t{address} << 32);
      }
    }
  }
  return n;
}

double share_of_strangers(const GateView& gate, Random& random) {
  constexpr int kStrangers = 200'000;
  int pass = 0;
  for (int i = 0; i < kStrangers; i++) pass += passes_gate(gate, random.next());
  return static_cast<double>(pass) / kStrangers;
}

SnapshotInput with_gates(SnapshotInput input, const Tables& v4, const Tables& v6) {
  for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    input.gates[weir_gate_number(4, side)].tables = v4;
    input.gates[weir_gate_number(6, side)].tables = v6;
  }
  return input;
}

const Tables kTablesV6[] = {{{60, 20}},           {{48, 18}},           {{16, 16}},
                            {{16, 16}, {32, 20}}, {{20, 20}, {48, 21}}, {{16, 16}, {40, 18}, {64, 22}}};

std::string refused(const SnapshotInput& input) {
  const auto plan = plan_snapshot(input);
  return plan ? std::string("accepted") : plan.error();
}

}  // namespace

TEST_CASE("every key passes its gate, whatever its shape and the gate's tables") {
  Random random(31);
  for (const uint8_t prefix_bits : std::initializer_list<uint8_t>{16, 20, 24, 27, 28}) {
    for (const Tables& v6 : kTablesV6) {
      SnapshotInput input = full_input(400, random.next());
      for (const uint8_t bits : std::initializer_list<uint8_t>{8, 15, 25})
        input.tables.push_back(random_table({4, bits, false}, 60, 4, random));
      for (const uint8_t bits : std::initializer_list<uint8_t>{10, 16, 21, 32, 33, 64, 65}) {
        if (bits + 16 < v6[0].prefix_bits) continue;  // would fill too much
        input.tables.push_back(random_table({6, bits, bits == 33}, 60, 4, random));
      }
      SnapshotInput flows = flow_input(300, random.next());
      std::erase_if(flows.tables, [](const KeyTable& table) { return table.shape.addr_bits == 0; });
      for (const uint8_t side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
        for (KeyTable& table : flows.tables) table.gate_side = side;
        const Buffer bytes = build(with_gates(flows, {{prefix_bits, prefix_bits}}, v6));
        CHECK(kept_out(flows, test::open(bytes), random) == 0);
      }
      const Buffer bytes = build(with_gates(input, {{prefix_bits, prefix_bits}}, v6));
      CHECK(kept_out(input, test::open(bytes), random) == 0);
    }
  }
}

TEST_CASE("strangers pass about as often as bits are set") {
  Random random(32);
  SnapshotInput input = empty_input();
  input.tables = {random_table({4, 32, false}, 60'000, 4, random), random_table({6, 128, false}, 60'000, 4, random),
                  random_table({6, 32, false}, 3000, 4, random)};
  input = with_gates(std::move(input), {{20, 20}}, {{16, 16}, {32, 18}, {64, 20}});
  const Buffer bytes = build(input);
  const SnapshotView view = test::open(bytes);
  for (unsigned g = 0; g < WEIR_GATES; g++) {
    const weir_gate& gate = view.header().gates[g];
    REQUIRE(gate.kind == WEIR_GATE_TABLES);
    double none = 1;
    for (unsigned t = 0; t < gate.n_tables; t++) {
      none *= 1 - static_cast<double>(gate.table[t].n_set) / std::ldexp(1, gate.table[t].index_bits);
    }
    INFO("gate " << g);
    const double share = share_of_strangers(view.gate(g / 2 == 0 ? 4 : 6, g % 2), random);
    CHECK(share == Approx(1 - none).margin(0.003));
    CHECK(share > 0.01);
  }
  // Two thirds of the rules have lists on each side: of 2^20 places, 40,000 are thrown at.
  CHECK(view.header().gates[0].table[0].n_set == Approx(1048576 * (1 - std::exp(-40'000.0 / 1048576))).epsilon(0.01));
  CHECK(view.header().gates[2].table[0].n_set == 0);  // no key is shorter than 32 bits
}

TEST_CASE("a key stands only at the gates of the sides on which its rule has lists") {
  SnapshotInput input = empty_input();
  KeyTable table;
  table.words[0] = {make_key({4, 32}, weir::Ipv4{0x01000000}).word[0],
                    make_key({4, 32}, weir::Ipv4{0x02000000}).word[0],
                    make_key({4, 32}, weir::Ipv4{0x03000000}).word[0]};
  table.rules = {1, 2, 3};
  input.tables = {table};
  input.networks = {{0x040000, 0x040000, 1}, {0x050000, 0x050000, 2}};
  const Buffer bytes = build(with_gates(input, {{24, 24}}, {}));
  const SnapshotView view = test::open(bytes);
  const auto passes = [&](unsigned side, uint64_t first_byte) {
    return passes_gate(view.gate(4, side), first_byte << 56);
  };
  for (const auto& [byte, source, destination] : {std::tuple{0, false, false},
                                                  {1, true, false},
                                                  {2, false, true},
                                                  {3, true, true},
                                                  {4, true, false},
                                                  {5, false, true}}) {
    INFO(byte);
    CHECK(passes(WEIR_SIDE_SOURCE, byte) == source);
    CHECK(passes(WEIR_SIDE_DESTINATION, byte) == destination);
  }
  CHECK(view.header().gates[0].table[0].n_set == 3);
  CHECK(view.header().gates[0].multiplier == 0);
}

TEST_CASE("short keys fill all that they cover, and nothing more") {
  SnapshotInput input = empty_input();
  KeyTable v4, v6;
  v4.shape = {4, 9};
  v4.words[0] = {make_key(v4.shape, weir::Ipv4{0x0a800000}).word[0]};  // 10.128.0.0/9
  v6.shape = {6, 20};
  const Key key = make_key(v6.shape, weir::Ipv6{0x20010} << 108);
  v6.words[0] = {key.word[0]}, v6.words[1] = {key.word[1]};
  v4.rules = v6.rules = {1};
  input.tables = {v4, v6};
  const Buffer bytes = build(with_gates(input, {{22, 22}}, {{32, 24}}));
  const SnapshotView view = test::open(bytes);
  CHECK(view.header().gates[0].table[0].n_set == 1 << (22 - 9));
  CHECK(view.header().gates[2].table[0].n_set > (1 << 12) - 10);  // of 2^24 places: hardly two share one
  CHECK(view.header().gates[2].table[0].n_set <= 1 << 12);
  CHECK_FALSE(passes_gate(view.gate(4, 0), uint64_t{0x0a7fffff} << 32));
  CHECK(passes_gate(view.gate(4, 0), uint64_t{0x0a800000} << 32));
  CHECK(passes_gate(view.gate(4, 0), uint64_t{0x0affffff} << 32));
  CHECK_FALSE(passes_gate(view.gate(4, 0), uint64_t{0x0b000000} << 32));
  for (uint64_t i = 0; i < 1 << 12; i++) CHECK(passes_gate(view.gate(6, 0), (uint64_t{0x20010} << 12 | i) << 32));
}

TEST_CASE("gates that nobody asked for are open, and closed where nothing stands") {
  SnapshotInput input = empty_input();
  Random random(33);
  input.tables = {random_table({4, 32, false}, 10, 2, random)};  // rule 1: source only
  const Buffer bytes = build(input);
  const SnapshotView view = test::open(bytes);
  CHECK(view.gate(4, WEIR_SIDE_SOURCE).kind == WEIR_GATE_OPEN);
  CHECK(passes_gate(view.gate(4, WEIR_SIDE_SOURCE), 1));
  for (const weir_gate& gate : std::span(view.header().gates).subspan(1)) CHECK(gate.kind == WEIR_GATE_CLOSED);
  CHECK_FALSE(passes_gate(view.gate(4, WEIR_SIDE_DESTINATION), 1));

  SnapshotInput flows = flow_input(50, 34);
  for (KeyTable& table : flows.tables) table.gate_side = WEIR_SIDE_DESTINATION;
  const Buffer flow_bytes = build(flows);
  const SnapshotView flow_view = test::open(flow_bytes);
  CHECK(flow_view.gate(4, WEIR_SIDE_SOURCE).kind == WEIR_GATE_CLOSED);
  CHECK(flow_view.gate(4, WEIR_SIDE_DESTINATION).kind == WEIR_GATE_OPEN);
  for (const ShapeView& shape : flow_view.shapes()) CHECK(shape.gate_side == WEIR_SIDE_DESTINATION);
}

TEST_CASE("several threads set the bits that one sets") {
  Random random(35);
  SnapshotInput input = empty_input();
  input.tables = {random_table({4, 32, false}, 350'100, 4, random), random_table({6, 64, false}, 350'100, 4, random)};
  input = with_gates(std::move(input), {{24, 24}}, {{64, 22}});
  const auto plan = plan_snapshot(input);
  REQUIRE(plan);
  Buffer one(plan->header.total_bytes), three(plan->header.total_bytes);
  REQUIRE(build_snapshot(input, *plan, one.bytes(), 1));
  REQUIRE(build_snapshot(input, *plan, three.bytes(), 3));
  for (unsigned g = 0; g < WEIR_GATES; g++) {
    const weir_gate_table& table = one.header().gates[g].table[0];
    REQUIRE(memcmp(&one.header().gates[g], &three.header().gates[g], sizeof(weir_gate)) == 0);
    REQUIRE(memcmp(one.at<std::byte>(table.bits), three.at<std::byte>(table.bits), table.bits.size_bytes) == 0);
  }
}

TEST_CASE("another secret, another multiplier; each gate has its own") {
  SnapshotInput input = with_gates(full_input(100, 36), {}, {{64, 20}});
  const Buffer one = build(input);
  input.secret[0] ^= 1;
  const Buffer other = build(input);
  std::set<uint64_t> multipliers;
  for (const Buffer* bytes : {&one, &other}) {
    const SnapshotView view = test::open(*bytes);
    for (const unsigned side : {0, 1}) multipliers.insert(view.gate(6, side).multiplier);
  }
  CHECK(multipliers.size() == 4);
  for (const uint64_t multiplier : multipliers) CHECK(multiplier % 2 == 1);
}

TEST_CASE("gates that the format cannot hold are refused by the planner") {
  const SnapshotInput input = full_input(10, 37);
  CHECK(refused(with_gates(input, {{28, 28}}, {{15, 15}, {30, 30}, {64, 30}})) == "accepted");
  CHECK_THAT(refused(with_gates(input, {{15, 15}}, {})),
             ContainsSubstring("gate of IPv4 sources: prefix_bits is not 16 to 28"));
  CHECK_THAT(refused(with_gates(input, {{29, 29}}, {})), ContainsSubstring("prefix_bits is not 16 to 28"));
  CHECK_THAT(refused(with_gates(input, {{24, 20}}, {})), ContainsSubstring("IPv4 is direct"));
  CHECK_THAT(refused(with_gates(input, {{20, 20}, {24, 24}}, {})), ContainsSubstring("2 tables are too many"));
  CHECK_THAT(refused(with_gates(input, {}, {{65, 20}})),
             ContainsSubstring("gate of IPv6 sources: prefix_bits is more than 64"));
  CHECK_THAT(refused(with_gates(input, {}, {{20, 24}})), ContainsSubstring("index_bits is more than prefix_bits"));
  CHECK_THAT(refused(with_gates(input, {}, {{64, 31}})), ContainsSubstring("index_bits is not 15 to 30"));
  CHECK_THAT(refused(with_gates(input, {}, {{64, 14}})), ContainsSubstring("index_bits is not 15 to 30"));
  CHECK_THAT(refused(with_gates(input, {}, {{32, 20}, {32, 21}})), ContainsSubstring("order"));
  CHECK_THAT(refused(with_gates(input, {}, {{16, 16}, {24, 20}, {32, 20}, {64, 20}})), ContainsSubstring("4 tables"));

  SnapshotInput wide = empty_input();
  Random random(38);
  wide.tables = {random_table({6, 8, false}, 10, 4, random)};
  CHECK(refused(with_gates(wide, {}, {{16, 16}})) == "accepted");
  CHECK_THAT(refused(with_gates(wide, {}, {{48, 20}})),
             ContainsSubstring("10 keys of /8 would fill too much of a table of /48"));

  SnapshotInput sides = full_input(10, 39);
  sides.tables[0].gate_side = WEIR_SIDE_DESTINATION;
  CHECK_THAT(refused(sides), ContainsSubstring("no such side"));
  SnapshotInput flows = flow_input(10, 39);
  flows.tables[0].gate_side = 2;
  CHECK_THAT(refused(flows), ContainsSubstring("no such side"));
}
