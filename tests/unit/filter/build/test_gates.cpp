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
        const uint64_t address = address_in(table, i, side, random);
        n += !passes_gate(view.gate(table.shape.family, side), address);
        n += !passes_gate(view.xdp_gate(table.shape.family, side), address);
      }
    }
  }
  for (const NetworkRun& run : input.networks) {
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      if ((sides_of(input.rules[run.rule]) >> side & 1) == 0) continue;
      for (uint32_t network = run.first; network <= run.last; network++) {
        const auto address = static_cast<uint32_t>(network << 8 | random.below(256));
        n += !passes_gate(view.gate(4, side), uint64_t{address} << 32);
        n += !passes_gate(view.xdp_gate(4, side), uint64_t{address} << 32);
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

SnapshotInput with_gates(SnapshotInput input, const Tables& v4, const Tables& v6, const Tables& xdp_v4 = {},
                         const Tables& xdp_v6 = {}) {
  for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    input.gates[weir_gate_number(4, side)].tables = v4;
    input.gates[weir_gate_number(6, side)].tables = v6;
    input.xdp_gates[weir_gate_number(4, side)].tables = xdp_v4;
    input.xdp_gates[weir_gate_number(6, side)].tables = xdp_v6;
  }
  return input;
}

constexpr GateChoice::Table words_of(uint8_t prefix_bits, uint32_t pages) {
  return {prefix_bits, pages * (WEIR_PAGE_BYTES / 8)};
}

const Tables kTablesV4[] = {{{16, 0}},
                            {{24, 0}},
                            {{28, 0}},
                            {words_of(9, 1)},
                            {words_of(20, 3)},
                            {{20, 0}, words_of(32, 1)},
                            {words_of(20, 1), words_of(28, 2)}};
const Tables kTablesV6[] = {{words_of(60, 32)},
                            {words_of(48, 8)},
                            {{16, 0}},
                            {{16, 0}, words_of(32, 32)},
                            {words_of(20, 7), words_of(48, 64)},
                            {words_of(40, 8), words_of(64, 128)}};

std::string refused(const SnapshotInput& input) {
  const auto plan = plan_snapshot(input);
  return plan ? std::string("accepted") : plan.error();
}

}  // namespace

TEST_CASE("every key passes its gate, whatever its shape and the gate's tables") {
  Random random(31);
  for (const Tables& v4 : kTablesV4) {
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
        const Buffer bytes = build(with_gates(flows, v4, v6, kTablesV4[0], v6));
        CHECK(kept_out(flows, test::open(bytes), random) == 0);
      }
      const Buffer bytes = build(with_gates(input, v4, v6, v4, kTablesV6[3]));
      CHECK(kept_out(input, test::open(bytes), random) == 0);
    }
  }
}

TEST_CASE("strangers pass about as often as bits are set") {
  Random random(32);
  SnapshotInput input = empty_input();
  input.tables = {random_table({4, 32, false}, 60'000, 4, random), random_table({6, 128, false}, 60'000, 4, random),
                  random_table({6, 32, false}, 3000, 4, random)};
  input = with_gates(std::move(input), {{20, 0}}, {words_of(32, 8), words_of(64, 16)}, {words_of(32, 16)}, {{16, 0}});
  const Buffer bytes = build(input);
  const SnapshotView view = test::open(bytes);
  // Two thirds of the rules have lists on each side: of 2^20 places, 40,000 are thrown at.
  CHECK(view.header().gates[0].table[0].n_set == Approx(1048576 * (1 - std::exp(-40'000.0 / 1048576))).epsilon(0.01));
  for (const bool is_of_xdp : {false, true}) {
    for (unsigned g = 0; g < WEIR_GATES; g++) {
      const weir_gate& gate = (is_of_xdp ? view.header().xdp_gates : view.header().gates)[g];
      const unsigned family = g / 2 == 0 ? 4 : 6, side = g % 2;
      const GateView& asked = is_of_xdp ? view.xdp_gate(family, side) : view.gate(family, side);
      REQUIRE(gate.kind == WEIR_GATE_TABLES);
      double none = 1;
      for (unsigned t = 0; t < gate.n_tables; t++) {
        const double words =
            static_cast<double>(weir_gate_table_words(gate.table[t].prefix_bits, gate.table[t].n_words));
        double share = static_cast<double>(gate.table[t].n_set) / words / 64;
        if (gate.table[t].n_words != 0) {
          share = 0;
          for (size_t w = 0; w < gate.table[t].n_words; w++) {
            share += std::pow(std::popcount(asked.table[t].bits[w]) / 64.0, 3) / words;
          }
        }
        none *= 1 - share;
      }
      INFO("gate " << g << (is_of_xdp ? " of XDP" : ""));
      const double share = share_of_strangers(asked, random);
      CHECK(share == Approx(1 - none).margin(0.003));
      if (!is_of_xdp) CHECK(share > 0.01);
    }
  }
}

// A neighbour of a listed host is a stranger like any other to words, and none to a direct table.
TEST_CASE("the bits of a value say nothing of its word, however many words there are") {
  constexpr uint32_t kMostWords = WEIR_MAX_GATE_PAGES * (WEIR_PAGE_BYTES / 8);
  std::mt19937_64 random(11);
  const uint64_t multiplier = random() | 1;
  uint64_t seen[4][3] = {};  // by the word's number modulo 4: positions of the first, second, third bit
  for (int i = 0; i < 20'000; i++) {
    const uint64_t address = random();
    const weir_gate_place place = weir_gate_place_of(64, kMostWords, multiplier, address);
    REQUIRE(place.word < kMostWords);
    const uint64_t spread = weir_gate_spread(address, multiplier);
    constexpr unsigned kShifts[] = {32, 26, 20};
    uint64_t bits = 0;
    for (unsigned b = 0; b < 3; b++) {
      const uint64_t bit = uint64_t{1} << (spread >> kShifts[b] & 63);
      seen[place.word % 4][b] |= bit;
      bits |= bit;
    }
    REQUIRE(place.bits == bits);
  }
  for (const auto& of_word : seen) {
    for (const uint64_t positions : of_word) CHECK(positions == ~uint64_t{0});
  }
}

TEST_CASE("words keep out the neighbours of listed hosts") {
  Random random(39);
  SnapshotInput input = empty_input();
  input.tables = {random_table({4, 32, false}, 20'000, 2, random)};
  const Buffer bytes = build(with_gates(input, {{24, 0}}, {}, {words_of(32, 16)}, {}));
  const SnapshotView view = test::open(bytes);
  unsigned direct = 0, words = 0;
  for (size_t i = 0; i < 20'000; i++) {
    const uint64_t neighbour = address_in(input.tables[0], i, 0, random) ^ uint64_t { 1 } << 32;
    direct += passes_gate(view.gate(4, 0), neighbour);
    words += passes_gate(view.xdp_gate(4, 0), neighbour);
  }
  CHECK(direct == 20'000);
  CHECK(words < 400);
}

TEST_CASE("gates with the same bits have the same tables") {
  Random random(40);
  SnapshotInput input = empty_input();
  input.tables = {random_table({4, 32, false}, 1000, 2, random)};
  std::fill(input.tables[0].rules.begin(), input.tables[0].rules.end(), 3);  // of both sides
  const Tables v4 = {words_of(32, 2)};
  const auto offsets = [&] {
    const Buffer bytes = build(with_gates(input, v4, {}, v4, {}));
    const weir_snapshot_header& header = test::open(bytes).header();
    return std::array{header.gates[0].table[0].bits.offset, header.gates[1].table[0].bits.offset,
                      header.xdp_gates[0].table[0].bits.offset, header.xdp_gates[1].table[0].bits.offset};
  };
  const auto same = offsets();
  input.networks = {{0x0a0000, 0x0a0000, 1}};  // as source alone
  const auto by_networks = offsets();
  CHECK(by_networks[0] != by_networks[1]);
  input.networks.clear();
  CHECK((same[0] == same[1] && same[0] == same[2] && same[0] == same[3]));
  input.tables[0].rules[17] = 1;
  const auto by_side = offsets();
  CHECK(by_side[0] != by_side[1]);
  CHECK((by_side[0] == by_side[2] && by_side[1] == by_side[3]));
  const Buffer bytes = build(with_gates(input, v4, {}, v4, {}));
  CHECK(kept_out(input, test::open(bytes), random) == 0);
}

// An overlay takes lists away by a rule that has none: its key replaces the base's.
TEST_CASE("a key that the base asks for passes its gate, whatever its rule") {
  Random random(41);
  SnapshotInput input = empty_input();
  input.tables = {random_table({4, 32, false}, 100, 2, random)};
  input.rules.push_back({0, 0, 0, 0});
  std::fill(input.tables[0].rules.begin(), input.tables[0].rules.end(), static_cast<uint32_t>(input.rules.size() - 1));
  input.tables[0].asked = WEIR_AS_SOURCE;
  const Buffer bytes = build(with_gates(input, {words_of(32, 1)}, {}, {words_of(32, 1)}, {}));
  const SnapshotView view = test::open(bytes);
  for (size_t i = 0; i < 100; i++) CHECK(passes_gate(view.xdp_gate(4, 0), address_in(input.tables[0], i, 0, random)));
  CHECK(view.xdp_gate(4, 1).kind == WEIR_GATE_CLOSED);
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
  const Buffer bytes = build(with_gates(input, {{24, 0}}, {}));
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
  const Buffer bytes = build(with_gates(input, {{22, 0}}, {{32, 262144}}));
  const SnapshotView view = test::open(bytes);
  CHECK(view.header().gates[0].table[0].n_set == 1 << (22 - 9));
  CHECK(view.header().gates[2].table[0].n_set > 3 * (1 << 12) - 400);  // hardly two share one
  CHECK(view.header().gates[2].table[0].n_set <= 3 * (1 << 12));
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
  input = with_gates(std::move(input), {{24, 0}}, {{64, 65536}});
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

TEST_CASE("another secret, another multiplier") {
  SnapshotInput input = with_gates(full_input(100, 36), {}, {words_of(64, 32)});
  std::set<uint64_t> multipliers;
  for (int secret = 0; secret < 2; secret++) {
    const Buffer bytes = build(input);
    multipliers.insert(test::open(bytes).gate(6, 0).multiplier);
    input.secret[0] ^= 1;
  }
  CHECK(multipliers.size() == 2);
  for (const uint64_t multiplier : multipliers) CHECK(multiplier % 2 == 1);
}

TEST_CASE("gates that the format cannot hold are refused by the planner") {
  const SnapshotInput input = full_input(10, 37);
  CHECK(refused(with_gates(input, {{28, 0}, words_of(32, 9)}, {{15, 0}, words_of(64, 32768)})) == "accepted");
  CHECK_THAT(refused(with_gates(input, {{14, 0}}, {})),
             ContainsSubstring("gate of IPv4 sources: prefix_bits is not 15 to 28, and without words it is direct"));
  CHECK_THAT(refused(with_gates(input, {{29, 0}}, {})), ContainsSubstring("prefix_bits is not 15 to 28"));
  CHECK_THAT(refused(with_gates(input, {words_of(33, 1)}, {})), ContainsSubstring("prefix_bits is not 1 to 32"));
  CHECK_THAT(refused(with_gates(input, {{20, 0}, {22, 0}, {24, 0}}, {})), ContainsSubstring("3 tables are too many"));
  CHECK_THAT(refused(with_gates(input, {}, {words_of(65, 1)})),
             ContainsSubstring("gate of IPv6 sources: prefix_bits is not 1 to 64"));
  CHECK_THAT(refused(with_gates(input, {}, {{64, 511}})), ContainsSubstring("n_words is not a multiple of 512"));
  CHECK_THAT(refused(with_gates(input, {}, {words_of(64, 32769)})), ContainsSubstring("n_words is more than 32768"));
  CHECK_THAT(refused(with_gates(input, {}, {words_of(32, 1), words_of(32, 2)})), ContainsSubstring("order"));
  CHECK_THAT(refused(with_gates(input, {}, {}, {{29, 0}}, {})), ContainsSubstring("gate of IPv4 sources: prefix_bits"));

  SnapshotInput wide = empty_input();
  Random random(38);
  wide.tables = {random_table({6, 8, false}, 10, 4, random)};
  CHECK(refused(with_gates(wide, {}, {{16, 0}})) == "accepted");
  CHECK_THAT(refused(with_gates(wide, {}, {words_of(48, 32)})),
             ContainsSubstring("10 keys of /8 would fill too much of a table of /48"));
  // Of all shapes together: 256 keys of /32 fill 2^24 values of words of /48, as many as may be.
  SnapshotInput together = empty_input();
  together.tables = {random_table({6, 32, false}, 256, 2, random), random_table({6, 48, false}, 1, 2, random)};
  CHECK(refused(with_gates(together, {}, {words_of(48, 32)})) == "accepted");
  together.tables[1] = random_table({6, 47, false}, 1, 2, random);
  CHECK_THAT(refused(with_gates(together, {}, {words_of(48, 32)})), ContainsSubstring("1 keys of /47 would fill"));
  SnapshotInput networks = empty_input();
  networks.networks = {{0, 0x10000, 1}};
  CHECK(refused(with_gates(networks, {{28, 0}}, {})) == "accepted");
  CHECK_THAT(refused(with_gates(networks, {words_of(32, 9)}, {})),
             ContainsSubstring("65537 keys of /24 would fill too much of a table of /32"));

  SnapshotInput sides = full_input(10, 39);
  sides.tables[0].gate_side = WEIR_SIDE_DESTINATION;
  CHECK_THAT(refused(sides), ContainsSubstring("no such side"));
  SnapshotInput flows = flow_input(10, 39);
  flows.tables[0].gate_side = 2;
  CHECK_THAT(refused(flows), ContainsSubstring("no such side"));
}
