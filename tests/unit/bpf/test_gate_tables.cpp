// The tables of the kernel's gates as they are made, asked by their definition: without a kernel.
#include <vector>

#include "bpf/enforce/gates.h"
#include "bpf/program/gate_table.h"
#include "filter/format/gate.h"
#include "tests/catch.h"
#include "tests/unit/filter/support.h"

using namespace weir;
using filter::KeyShape;
using filter::KeyTable;
using filter::SnapshotInput;
using filter::test::Buffer;
using filter::test::Random;

namespace {

constexpr uint32_t kFirstPage = 3;  // what lies before it stays as it is
constexpr unsigned kSource = WEIR_SIDE_SOURCE, kDestination = WEIR_SIDE_DESTINATION;

struct Made {
  explicit Made(const SnapshotInput& input) : Made(filter::test::build(input)) {}
  explicit Made(Buffer built) : snapshot(std::move(built)) {
    const filter::SnapshotView view = filter::test::open(snapshot);
    const xdp::Gates gates(view);
    const uint32_t end = gates.place(kFirstPage, group);
    arena.resize(size_t{end} * WEIR_PAGE_WORDS);
    gates.fill(group, std::as_writable_bytes(std::span(arena)));
  }

  const weir_asked_gate& gate(unsigned family, unsigned side) const {
    return group.gate[weir_gate_number(family, side)];
  }
  bool passes(unsigned family, unsigned side, uint64_t address) const {
    const weir_asked_gate& asked = gate(family, side);
    if (asked.n_tables == 0) return asked.is_open != 0;
    for (const weir_asked_table& table : std::span(asked.table).first(asked.n_tables)) {
      const uint64_t leading = weir_leading(address, table.prefix_bits);
      const uint64_t spread = weir_spread(leading, asked.multiplier);
      const uint64_t word = table.n_words == 0 ? leading / 64 : weir_spread_word(spread, table.n_words);
      const uint64_t bits = table.n_words == 0 ? uint64_t{1} << leading % 64 : weir_spread_bits(spread);
      if ((arena[table.page * WEIR_PAGE_WORDS + word] & bits) == bits) return true;
    }
    return false;
  }
  double share(unsigned family, unsigned side) const {
    constexpr int kAsked = 100'000;
    Random random(99);
    int passed = 0;
    for (int i = 0; i < kAsked; i++) {
      passed += passes(family, side, family == 4 ? random.next() & 0xffffffff00000000 : random.next());
    }
    return static_cast<double>(passed) / kAsked;
  }

  Buffer snapshot;
  weir_group group = {};
  std::vector<uint64_t> arena;
};

void give_tables(SnapshotInput& input) {
  for (const unsigned side : {kSource, kDestination}) {
    input.gates[weir_gate_number(4, side)].tables = {{20, 20}};
    input.gates[weir_gate_number(6, side)].tables = {{16, 16}, {48, 20}, {64, 20}};
  }
}

SnapshotInput hosts(unsigned family, size_t n, uint32_t n_rules) {
  Random random(4);
  SnapshotInput input = filter::test::empty_input();
  const KeyShape shape = family == 4 ? KeyShape{4, 32} : KeyShape{6, 128};
  input.tables = {filter::test::random_table(shape, n, n_rules, random)};
  give_tables(input);
  return input;
}

// Some address that the key knows.
uint64_t address_of(const KeyTable& table, unsigned side, size_t i, Random& random) {
  const unsigned bits = filter::leading_bits(table.shape, side);
  const uint64_t others = bits < 64 ? random.next() >> bits : 0;
  const uint64_t known = filter::leading_address(table.shape, side, [&](unsigned w) { return table.words[w][i]; });
  return known | (table.shape.family == 4 ? others & 0xffffffff00000000 : others);
}

}  // namespace

TEST_CASE("every key comes through the kernel's gates, on the sides where it stands") {
  SnapshotInput input = filter::test::full_input(500, 3);
  Random random(8);
  for (const unsigned side : {kSource, kDestination}) {
    const uint8_t fields = side == kSource ? WEIR_FLOW_SPORT : WEIR_FLOW_DPORT;
    input.tables.push_back(filter::test::random_table({4, 20, false, true, 32, fields}, 500, 2, random));
    input.tables.back().gate_side = static_cast<uint8_t>(side);
  }
  give_tables(input);
  const Made made(input);
  for (const KeyTable& table : input.tables) {
    for (size_t i = 0; i < table.rules.size(); i++) {
      CAPTURE(table.shape.family, table.shape.addr_bits, table.shape.flow, i);
      const uint8_t sides = filter::sides_of(input.rules[table.rules[i]]);
      for (const unsigned side : {kSource, kDestination}) {
        const bool stands = table.shape.flow ? table.gate_side == side : (sides >> side & 1) != 0;
        if (stands) CHECK(made.passes(table.shape.family, side, address_of(table, side, i, random)));
      }
    }
  }
  for (const filter::NetworkRun& run : input.networks) {
    const uint8_t sides = filter::sides_of(input.rules[run.rule]);
    for (const uint64_t network : {run.first, run.last}) {
      for (const unsigned side : {kSource, kDestination}) {
        if ((sides >> side & 1) != 0) CHECK(made.passes(4, side, network << 40 | uint64_t{7} << 32));
      }
    }
  }
  for (uint64_t word : std::span(made.arena).first(kFirstPage * WEIR_PAGE_WORDS)) CHECK(word == 0);
}

TEST_CASE("a key that tells less than a table looks at fills all that it covers") {
  Random random(6);
  SnapshotInput input = filter::test::empty_input();
  input.tables = {filter::test::random_table({6, 48}, 50, 2, random)};
  input.gates[weir_gate_number(6, kSource)].tables = {{56, 20}};
  const Made made(input);
  for (size_t i = 0; i < input.tables[0].rules.size(); i++) {
    for (int times = 0; times < 100; times++) {
      CHECK(made.passes(6, kSource, address_of(input.tables[0], kSource, i, random)));
    }
  }
  CHECK(made.share(6, kSource) < 0.01);
}

TEST_CASE("few strangers come through the kernel's gates") {
  for (const unsigned family : {4u, 6u}) {
    CAPTURE(family);
    const Made made(hosts(family, 100'000, 2));
    CHECK(made.gate(family, kSource).n_tables == 1);
    CHECK(made.share(family, kSource) < 0.01);
    CHECK(made.share(family, kDestination) == 0);  // rule 1 is of sources
    CHECK(made.gate(10 - family, kSource).is_open == 0);
    CHECK(made.gate(10 - family, kSource).n_tables == 0);
  }
}

TEST_CASE("sides that have the same keys share a table") {
  Random random(5);
  SnapshotInput input = hosts(4, 1'000, 2);
  for (uint32_t& rule : input.tables[0].rules) rule = 3;  // of both sides
  const Made both(input);
  CHECK(both.gate(4, kSource).table[0].page == both.gate(4, kDestination).table[0].page);
  input.tables[0].rules[17] = 1;
  const Made not_all(input);
  CHECK(not_all.gate(4, kSource).table[0].page != not_all.gate(4, kDestination).table[0].page);
  CHECK(not_all.passes(4, kSource, address_of(input.tables[0], kSource, 17, random)));
}

TEST_CASE("networks get as many leading bits as they need, and no more") {
  SnapshotInput few = filter::test::empty_input(), many = filter::test::empty_input();
  few.networks = {{0x0a0000, 0x0affff, 1}, {0x0b0000, 0x0bffff, 1}};
  for (uint32_t network = 0; network < 1 << 24; network += 256) many.networks.push_back({network, network, 1});
  give_tables(few);
  give_tables(many);
  const Made a(few), b(many);
  REQUIRE(a.gate(4, kSource).n_tables == 1);
  REQUIRE(b.gate(4, kSource).n_tables == 1);
  CHECK(a.gate(4, kSource).table[0].prefix_bits == 15);
  CHECK(a.share(4, kSource) < 0.01);
  CHECK(b.gate(4, kSource).table[0].prefix_bits > 18);
  CHECK(b.share(4, kSource) < 0.05);
}

TEST_CASE("open gates stay open in the kernel") {
  SnapshotInput input = hosts(4, 100, 2);
  for (filter::GateChoice& choice : input.gates) choice.tables.clear();
  const Made made(input);
  CHECK(made.gate(4, kSource).is_open == 1);
  CHECK(made.gate(4, kSource).n_tables == 0);
}

// What the snapshot says of its gates is of no use: its base's may have tables where its own are open.
// And what it takes away has to be found.
TEST_CASE("an overlay's gates have tables of its keys, whatever it says of gates") {
  SnapshotInput input = filter::test::full_input(200, 9);
  input.networks.clear();
  Random random(9);
  for (const KeyShape shape : {KeyShape{4, 24}, KeyShape{4, 8}, KeyShape{6, 56}, KeyShape{6, 0, true}}) {
    input.tables.push_back(filter::test::random_table(shape, shape.addr_bits == 0 ? 3 : 20, 4, random));
  }
  input.rules.push_back({0, 0, 0, 0});
  input.tables[0].asked = WEIR_AS_SOURCE;
  for (uint32_t& rule : input.tables[0].rules) rule = 4;  // all taken away: in an overlay alone
  Buffer snapshot = filter::test::build(input);
  snapshot.header().number = 2;
  snapshot.header().base_number = 1;
  snapshot.header().base_digest[0] = 1;
  for (const weir_gate& gate : snapshot.header().gates) REQUIRE(gate.kind != WEIR_GATE_TABLES);
  const Made made(std::move(snapshot));
  CHECK(made.gate(4, kSource).n_tables == 3);
  CHECK(made.gate(6, kDestination).n_tables == 3);
  for (const KeyTable& table : input.tables) {
    for (size_t i = 0; i < table.rules.size(); i++) {
      CAPTURE(table.shape.family, table.shape.addr_bits, i);
      for (const unsigned side : {kSource, kDestination}) {
        if (side == kDestination && table.asked != 0) continue;
        CHECK(made.passes(table.shape.family, side, address_of(table, side, i, random)));
      }
    }
  }
  CHECK(made.share(4, kSource) < 0.2);  // 20 of 256 leading bytes are listed
}

TEST_CASE("many keys that tell the same few bits of an address fill a table once") {
  SnapshotInput input = filter::test::empty_input();
  constexpr uint64_t kPorts = 16'384;
  KeyTable table;
  table.shape = {4, 1, false, true, 0, WEIR_FLOW_SPORT};
  for (uint64_t port = 0; port < kPorts; port++) {
    table.words[0].push_back(port % 2 == 0 ? 0x80 : 0);
    table.words[1].push_back(port);
    table.rules.push_back(1);
  }
  input.tables = {table};
  input.gates[weir_gate_number(4, kSource)].tables = {{16, 16}};
  const Buffer snapshot = filter::test::build(input);
  const filter::SnapshotView view = filter::test::open(snapshot);
  CHECK(xdp::Gates(view).fills() == (uint64_t{1} << 24) / 64);  // one bit for each /24
  const Made made(input);
  CHECK(made.share(4, kSource) == 1);
}
