#include <functional>

#include "filter/format/gate.h"
#include "tests/unit/filter/support.h"

using namespace weir::filter;
using namespace weir::filter::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// Gates of IPv4: a table as source, open as destination. Gates of IPv6: two tables as source, closed as destination.
SnapshotInput gated_input() {
  Random random(41);
  SnapshotInput input = empty_input();
  input.tables = {random_table({4, 32, false}, 50, 4, random), random_table({6, 128, false}, 50, 2, random),
                  random_table({6, 32, false}, 50, 2, random)};
  input.gates[weir_gate_number(4, WEIR_SIDE_SOURCE)].tables = {{16, 0}};
  input.gates[weir_gate_number(6, WEIR_SIDE_SOURCE)].tables = {{15, 0}, {64, 2048}};
  return input;
}

// The error for it when it was changed in one place. gates: 0 IPv4 sources, 1 destinations, 2 and 3 IPv6.
std::string error_after(const std::function<void(Buffer&, weir_gate*)>& change) {
  static const Buffer good = build(gated_input());
  Buffer damaged(good.bytes());
  change(damaged, damaged.header().gates);
  const auto view = SnapshotView::open(damaged.bytes());
  return view ? "accepted" : view.error();
}

}  // namespace

TEST_CASE("damage to gates is named") {
  using B = Buffer&;
  using G = weir_gate*;
  CHECK(error_after([](B, G) {}) == "accepted");
  CHECK_THAT(error_after([](B, G g) { g[1].kind = 3; }), ContainsSubstring("gates[1].kind is 3"));
  CHECK_THAT(error_after([](B, G g) { g[1].kind = WEIR_GATE_CLOSED; }),
             ContainsSubstring("closed, but a shape stands there"));
  CHECK(error_after([](B, G g) { g[3].kind = WEIR_GATE_OPEN; }) == "accepted");  // always right
  CHECK_THAT(error_after([](B, G g) { g[3].kind = WEIR_GATE_TABLES; }),
             ContainsSubstring("gates[3].n_tables is 0: 1 or 2"));
  CHECK_THAT(error_after([](B, G g) { g[0].kind = WEIR_GATE_OPEN; }),
             ContainsSubstring("gates[0].n_tables is 1: it has none"));
  CHECK_THAT(error_after([](B, G g) { g[2].n_tables = 3; }), ContainsSubstring("gates[2].n_tables is 3: 1 or 2"));
  CHECK_THAT(error_after([](B, G g) { g[2].n_tables = 1; }), ContainsSubstring("tables behind that number must be 0"));
  CHECK_THAT(error_after([](B, G g) { g[3].table[0].n_set = 1; }),
             ContainsSubstring("gates[3].n_tables is 0: tables behind"));
  CHECK_THAT(error_after([](B, G g) { g[1].reserved[5] = 1; }), ContainsSubstring("gates[1].reserved"));
  CHECK_THAT(error_after([](B, G g) { g[0].multiplier = 1; }), ContainsSubstring("no table of it has words"));
  CHECK_THAT(error_after([](B, G g) { g[2].multiplier = 0; }), ContainsSubstring("gates[2].multiplier is 0: not odd"));
  CHECK_THAT(error_after([](B, G g) { g[2].multiplier++; }), ContainsSubstring("not odd"));
}

TEST_CASE("damage to a gate's tables is named") {
  using B = Buffer&;
  using G = weir_gate*;
  CHECK_THAT(error_after([](B, G g) { g[0].table[0].prefix_bits = 14; }),
             ContainsSubstring("gates[0].table[0]: prefix_bits is not 15 to 28"));
  CHECK_THAT(error_after([](B, G g) { g[0].table[0].prefix_bits = 29; }),
             ContainsSubstring("prefix_bits is not 15 to 28"));
  CHECK_THAT(error_after([](B, G g) { g[0].table[0].prefix_bits = 17; }),
             ContainsSubstring("gates[0].table[0].bits.size_bytes is 8192: must be 16384"));
  CHECK_THAT(error_after([](B, G g) { g[0].table[0].n_words = 512; }),
             ContainsSubstring("gates[0].table[0].bits.size_bytes is 8192: must be 4096"));
  CHECK_THAT(error_after([](B, G g) { g[2].table[1].prefix_bits = 65; }),
             ContainsSubstring("gates[2].table[1]: prefix_bits is not 1 to 64"));
  CHECK_THAT(error_after([](B, G g) { g[2].table[1].prefix_bits = 0; }), ContainsSubstring("prefix_bits is not 1 to"));
  CHECK_THAT(error_after([](B, G g) { g[2].table[1].n_words = 2047; }),
             ContainsSubstring("n_words is not a multiple of 512"));
  CHECK_THAT(error_after([](B, G g) { g[2].table[1].n_words = 512u * 32769; }),
             ContainsSubstring("n_words is more than 32768 pages"));
  CHECK_THAT(error_after([](B, G g) { g[2].table[1].prefix_bits = 15; }),
             ContainsSubstring("gates[2].table[1].prefix_bits is 15: not more than"));
  CHECK_THAT(error_after([](B, G g) { g[2].table[1].reserved[0] = 1; }),
             ContainsSubstring("gates[2].table[1].reserved"));
  CHECK_THAT(error_after([](B, G g) { g[0].table[0].n_set++; }), ContainsSubstring("gates[0].table[0].n_set is"));
  CHECK_THAT(error_after([](B b, G g) { b.at<uint64_t>(g[2].table[1].bits)[2047] ^= 1; }),
             ContainsSubstring("gates[2].table[1].n_set is"));
  CHECK_THAT(error_after([](B, G g) { g[0].table[0].bits.offset += 64; }), ContainsSubstring("not a multiple of 4096"));
  CHECK_THAT(error_after([](B, G g) { g[0].table[0].bits.offset = ~uint64_t{4095}; }),
             ContainsSubstring("behind the end"));
  CHECK_THAT(error_after([](B, G g) { g[2].table[1].bits.offset = g[2].table[0].bits.offset; }),
             ContainsSubstring("overlaps"));
  CHECK_THAT(error_after([](B b, G) { b.header().shapes[0].filter.offset -= 4096; }),
             ContainsSubstring("filter.offset"));
}

TEST_CASE("only a flow shape has a gate's side") {
  Buffer bytes = build(gated_input());
  bytes.header().shapes[0].gate_side = 1;
  const auto view = SnapshotView::open(bytes.bytes());
  REQUIRE_FALSE(view);
  CHECK_THAT(view.error(), ContainsSubstring("shapes[0].gate_side is 1: only a flow shape has one"));

  Buffer flows = build(flow_input(10, 42));
  flows.header().shapes[0].gate_side = 2;
  const auto flow_view = SnapshotView::open(flows.bytes());
  REQUIRE_FALSE(flow_view);
  CHECK_THAT(flow_view.error(), ContainsSubstring("shapes[0].gate_side is 2: source is 0, destination 1"));

  // A gate that is closed because the flow stands at the other side.
  SnapshotInput input = flow_input(10, 43);
  for (KeyTable& table : input.tables) table.gate_side = WEIR_SIDE_DESTINATION;
  Buffer moved = build(input);
  CHECK(SnapshotView::open(moved.bytes()));
  moved.header().shapes[0].gate_side = WEIR_SIDE_SOURCE;
  const auto stands = SnapshotView::open(moved.bytes());
  REQUIRE_FALSE(stands);
  CHECK_THAT(stands.error(), ContainsSubstring("gates[0].kind is 1: closed, but a shape stands there"));
}

TEST_CASE("damage to XDP's gates is named, too; tables are shared only as a whole") {
  SnapshotInput input = gated_input();
  input.xdp_gates = input.gates;
  input.xdp_gates[weir_gate_number(4, WEIR_SIDE_SOURCE)].tables = {{32, 512}};
  Buffer good = build(input);
  const auto after = [&](const std::function<void(weir_snapshot_header&)>& change) {
    Buffer damaged(good.bytes());
    change(damaged.header());
    const auto view = SnapshotView::open(damaged.bytes());
    return view ? std::string("accepted") : view.error();
  };
  using H = weir_snapshot_header&;
  REQUIRE(good.header().xdp_gates[2].table[0].bits.offset == good.header().gates[2].table[0].bits.offset);
  CHECK(after([](H) {}) == "accepted");
  CHECK_THAT(after([](H h) { h.xdp_gates[0].kind = WEIR_GATE_CLOSED; }), ContainsSubstring("xdp_gates[0].kind is 1"));
  CHECK_THAT(after([](H h) { h.xdp_gates[0].table[0].n_set++; }), ContainsSubstring("xdp_gates[0].table[0].n_set"));
  CHECK_THAT(after([](H h) { h.xdp_gates[2].multiplier += 2; }),
             ContainsSubstring("xdp_gates[2].table[0].bits.offset"));  // no longer the same gate, but the same tables
}
