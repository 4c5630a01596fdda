#include "filter/read/validate_gates.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "filter/format/gate.h"
#include "filter/format/packet.h"
#include "filter/format/rules.h"

namespace weir::filter {
namespace {

uint64_t count_bits(const uint64_t* words, size_t n) {
  uint64_t bits = 0;
  for (size_t i = 0; i < n; i++) bits += static_cast<uint64_t>(std::popcount(words[i]));
  return bits;
}

Result<void> check_table(const std::string& name, unsigned family, const weir_gate_table& table, Sections& sections) {
  if (const char* problem = gate_table_problem(table, family)) return broken(name + ": " + problem);
  if (!all_zero(table.reserved, sizeof table.reserved)) return broken(name + ".reserved is not 0");
  const uint64_t size_bytes = gate_table_bytes(table);
  if (auto ok = sections.next(name + ".bits", table.bits, size_bytes); !ok) return ok;
  const uint64_t n_set = count_bits(sections.at<uint64_t>(table.bits), size_bytes / sizeof(uint64_t));
  if (n_set != table.n_set) return bad(name + ".n_set", table.n_set, "there are " + std::to_string(n_set));
  return {};
}

// A gate that lets nothing through is right only where no shape could have a match.
bool stands_any(const weir_snapshot_header& header, unsigned family, unsigned side) {
  return std::any_of(header.shapes, header.shapes + header.n_shapes, [&](const weir_shape& shape) {
    return shape.family == family && weir_stands_at(&shape, side) != 0;
  });
}

bool is_same(const weir_gate& a, const weir_gate& b) {
  return memcmp(&a, &b, sizeof a) == 0;
}

// same: gates of the same family that have passed; where one is the same, its tables are this one's.
Result<void> check_gate(const std::string& name, const weir_gate& gate, const weir_snapshot_header& header,
                        unsigned family, unsigned side, std::span<const weir_gate* const> same, Sections& sections) {
  if (gate.kind > WEIR_GATE_TABLES) return bad(name + ".kind", gate.kind, "open is 0, closed 1, tables 2");
  if (gate.kind == WEIR_GATE_CLOSED && stands_any(header, family, side)) {
    return bad(name + ".kind", gate.kind, "closed, but a shape stands there");
  }
  const bool has_tables = gate.kind == WEIR_GATE_TABLES;
  if (has_tables ? gate.n_tables < 1 || gate.n_tables > WEIR_MAX_GATE_TABLES : gate.n_tables != 0) {
    return bad(name + ".n_tables", gate.n_tables, has_tables ? "1 or 2" : "it has none");
  }
  if (has_tables && std::any_of(same.begin(), same.end(), [&](const auto* other) { return is_same(gate, *other); })) {
    return {};
  }
  if (!all_zero(gate.reserved, sizeof gate.reserved)) return broken(name + ".reserved is not 0");
  const std::span tables(gate.table, gate.n_tables);
  bool has_words = false;
  for (size_t t = 0; t < tables.size(); t++) {
    const std::string table_name = name + ".table[" + std::to_string(t) + "]";
    if (auto ok = check_table(table_name, family, tables[t], sections); !ok) return ok;
    if (t > 0 && tables[t].prefix_bits <= tables[t - 1].prefix_bits) {
      return bad(table_name + ".prefix_bits", tables[t].prefix_bits, "not more than that of the table before");
    }
    has_words = has_words || tables[t].n_words != 0;
  }
  if (!all_zero(gate.table + gate.n_tables, (WEIR_MAX_GATE_TABLES - gate.n_tables) * sizeof *gate.table)) {
    return bad(name + ".n_tables", gate.n_tables, "tables behind that number must be 0");
  }
  if (has_words ? gate.multiplier % 2 == 0 : gate.multiplier != 0) {
    return bad(name + ".multiplier", gate.multiplier, has_words ? "not odd" : "no table of it has words");
  }
  return {};
}

}  // namespace

Result<void> validate_gates(const weir_snapshot_header& header, Sections& sections) {
  for (const bool is_of_xdp : {false, true}) {
    for (unsigned g = 0; g < WEIR_GATES; g++) {
      const weir_gate* gates = is_of_xdp ? header.xdp_gates : header.gates;
      const unsigned family = g < weir_gate_number(6, WEIR_SIDE_SOURCE) ? 4 : 6, side = g % 2;
      std::vector<const weir_gate*> same;
      if (is_of_xdp) same.push_back(&header.gates[g]);
      if (side == WEIR_SIDE_DESTINATION) same.push_back(&gates[g - 1]);
      const std::string name = (is_of_xdp ? "xdp_gates[" : "gates[") + std::to_string(g) + "]";
      if (auto ok = check_gate(name, gates[g], header, family, side, same, sections); !ok) return ok;
    }
  }
  return {};
}

}  // namespace weir::filter
