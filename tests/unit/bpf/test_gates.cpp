// The gates of the XDP program: no key is kept out, whatever its shape and its frame, few strangers come through, and
// where they are asked and where not shows when they let nothing through. Exit code 77, with the reason, where programs
// cannot be loaded (plane.h).
#include <sched.h>

#include <cstring>
#include <vector>

#include "filter/format/gate.h"
#include "tests/unit/bpf/frames.h"

using namespace weir;
using namespace weir::xdp;
using filter::SnapshotInput;

namespace {

using Tables = std::vector<filter::GateChoice::Table>;

// Of all shapes, with rules 1 (source) and 2 (destination); flows: rule 1, of UDP, at the gate of that side.
SnapshotInput input_of(uint64_t number, uint8_t flow_side, const Tables& v4, const Tables& v6) {
  Random random(number);
  SnapshotInput input = filter::test::empty_input();
  input.number = number;
  input.rules = {{0, 0, 0, 0}, {2, 0, 0, 0}, {0, 2, 0, 0}};  // set 2: the drop list
  input.tunnels = WEIR_TUNNEL_IPIP | WEIR_TUNNEL_6IN4;
  constexpr uint8_t kFields = WEIR_FLOW_PROTOCOL | WEIR_FLOW_SPORT | WEIR_FLOW_DPORT;
  for (const filter::KeyShape shape :
       {filter::KeyShape{4, 32}, filter::KeyShape{4, 32, true}, filter::KeyShape{4, 28}, filter::KeyShape{6, 128},
        filter::KeyShape{6, 48}, filter::KeyShape{6, 128, true}, filter::KeyShape{4, 32, false, true, 32, kFields},
        filter::KeyShape{6, 128, false, true, 128, kFields}}) {
    KeyTable table = filter::test::random_table(shape, 40, shape.flow ? 2 : 3, random);
    for (size_t i = 0; i < table.rules.size(); i++) {
      auto* first = reinterpret_cast<uint8_t*>(&table.words[0][i]);
      first[0] = 0x20;  // no stranger's
      if (shape.flow) reinterpret_cast<uint8_t*>(&table.words[shape.family == 4 ? 1 : 4][i])[4] = 17;
    }
    table.gate_side = shape.flow ? flow_side : 0;
    input.tables.push_back(std::move(table));
  }
  input.networks = {{0x210000, 0x210003, 1}, {0x220100, 0x2201ff, 2}};
  for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    input.gates[weir_gate_number(4, side)].tables = v4;
    input.gates[weir_gate_number(6, side)].tables = v6;
  }
  input.xdp_gates = input.gates;
  return input;
}

// From here on the gates of what enforces let nothing through.
void close_gates(const Plane& plane) {
  const Fd map(bpf_obj_get(pin_path(plane.folder, "weir_state").c_str()));
  const uint32_t zero = 0;
  weir_state state = {};
  REQUIRE(bpf_map_lookup_elem(map.get(), &zero, &state) == 0);
  for (weir_asked_gate& gate : state.group[state.active].gate) gate = {};
  REQUIRE(bpf_map_update_elem(map.get(), &zero, &state, BPF_ANY) == 0);
}

// Whether the program goes around the gates, each processor says for itself.
void stay_on_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
}

const Tables kTables[][2] = {{{{16, 0}}, {{16, 0}}},
                             {{{20, 0}, {32, 512}}, {{64, 4096}}},
                             {{{28, 0}}, {{20, 512}, {48, 32768}}},
                             {{{24, 512}, {32, 1536}}, {{48, 4096}, {64, 65536}}}};

}  // namespace

TEST_CASE("no key is kept out by a gate, and no stranger drops") {
  stay_on_one_processor();
  const Plane plane;
  Random random(5);
  uint64_t number = 0;
  for (const auto& [v4, v6] : kTables) {
    for (const uint8_t flow_side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      const SnapshotInput input = input_of(++number, flow_side, v4, v6);
      const Buffer snapshot = filter::test::build(input);
      for (const weir_gate& gate : filter::test::open(snapshot).header().xdp_gates)
        REQUIRE(gate.kind == WEIR_GATE_TABLES);
      publish(plane, snapshot);
      CAPTURE(number);
      for (const KeyTable& table : input.tables) {
        for (size_t i = 0; i < table.rules.size(); i++) {
          const unsigned side = table.rules[i] == 2 ? WEIR_SIDE_DESTINATION : WEIR_SIDE_SOURCE;
          for (const Kind kind : kKinds) {
            CAPTURE(table.shape.family, table.shape.addr_bits, table.shape.flow, i, kind);
            // So many that the gates are asked; one by one, as the kernel takes 10 ms to begin a run of more.
            for (int times = 0; times < 4; times++) {
              CHECK_FALSE(drops(plane, frame_of(stranger(i % 2 == 0 ? 4u : 6u, random), kind, random)));
            }
            const Flow flow = member(table, i, side, random);
            CHECK(drops(plane, frame_of(flow, kind, random)));
            if (table.shape.flow) continue;
            Flow other = stranger(table.shape.family, random);  // the key, on the side where nobody lists it
            memcpy(other.address[1 - side], flow.address[side], sizeof other.address[0]);
            memcpy(other.port[1 - side], flow.port[side], sizeof other.port[0]);
            CHECK_FALSE(drops(plane, frame_of(other, kind, random)));
          }
        }
      }
      for (const uint32_t network : {0x210000u, 0x210003u, 0x210004u}) {
        Flow flow = stranger(4, random);
        const uint32_t address = __builtin_bswap32(network << 8 | 9);
        memcpy(flow.address[0], &address, sizeof address);
        CHECK(drops(plane, frame_of(flow, Kind::plain, random)) == (network != 0x210004u));
      }
    }
  }
}

TEST_CASE("gates are asked while they let few packets through, and not while most are listed") {
  stay_on_one_processor();
  const Plane plane;
  Random random(6);
  for (const unsigned family : {4u, 6u}) {
    const uint64_t number = plane.enforcer->status().generation.number + 1;
    const SnapshotInput input = input_of(number, WEIR_SIDE_SOURCE, {{20, 0}}, {{64, 4096}});
    const KeyTable& hosts = input.tables[family == 4 ? 0 : 3];
    REQUIRE(hosts.rules[0] == 1);
    const Frame listed = frame_of(member(hosts, 0, WEIR_SIDE_SOURCE, random), Kind::plain, random);
    const Frame not_listed = frame_of(stranger(family, random), Kind::plain, random);
    const auto see_strangers = [&] { return drops(plane, not_listed, 4096); };
    publish(plane, filter::test::build(input));
    CHECK_FALSE(see_strangers());
    CHECK(drops(plane, listed));
    CHECK(drops(plane, listed, 4096));  // from here on it goes around them

    close_gates(plane);
    CHECK(drops(plane, listed, 4096));
    CHECK_FALSE(see_strangers());
    CHECK_FALSE(drops(plane, listed));
    for (const Kind kind : kKinds) {
      CHECK_FALSE(drops(plane, frame_of(member(hosts, 1, WEIR_SIDE_DESTINATION, random), kind, random)));
    }
  }
}

int before_tests() {
  return can_load_programs();
}
