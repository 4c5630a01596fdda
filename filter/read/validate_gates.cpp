#include "filter/read/validate_gates.h"

#include <algorithm>
#include <bit>
#include <span>
#include <string>

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
  const uint64_t size_bytes = weir_gate_table_bytes(table.index_bits);
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

Result<void> check_gate(const weir_snapshot_header& header, unsigned family, unsigned side, Sections& sections) {
  const unsigned g = weir_gate_number(family, side);
  const weir_gate& gate = header.gates[g];
  const std::string name = "gates[" + std::to_string(g) + "]";
  if (gate.kind > WEIR_GATE_TABLES) return bad(name + ".kind", gate.kind, "open is 0, closed 1, tables 2");
  if (gate.kind == WEIR_GATE_CLOSED && stands_any(header, family, side)) {
    return bad(name + ".kind", gate.kind, "closed, but a shape stands there");
  }
  const unsigned most = family == 4 ? 1 : WEIR_MAX_GATE_TABLES;
  const bool has_tables = gate.kind == WEIR_GATE_TABLES;
  if (has_tables ? gate.n_tables < 1 || gate.n_tables > most : gate.n_tables != 0) {
    return bad(name + ".n_tables", gate.n_tables, has_tables ? "1 to " + std::to_string(most) : "it has none");
  }
  if (!all_zero(gate.reserved, sizeof gate.reserved)) return broken(name + ".reserved is not 0");
  const std::span tables(gate.table, gate.n_tables);
  bool hashed = false;
  for (size_t t = 0; t < tables.size(); t++) {
    const std::string table_name = name + ".table[" + std::to_string(t) + "]";
    if (auto ok = check_table(table_name, family, tables[t], sections); !ok) return ok;
    if (t > 0 && tables[t].prefix_bits <= tables[t - 1].prefix_bits) {
      return bad(table_name + ".prefix_bits", tables[t].prefix_bits, "not more than that of the table before");
    }
    hashed = hashed || tables[t].index_bits != tables[t].prefix_bits;
  }
  if (!all_zero(gate.table + gate.n_tables, (WEIR_MAX_GATE_TABLES - gate.n_tables) * sizeof *gate.table)) {
    return bad(name + ".n_tables", gate.n_tables, "tables behind that number must be 0");
  }
  if (const weir_shape* shape = gate_overfiller(header, gate, family, side)) {
    return broken(name + ": the keys of shapes[" + std::to_string(shape - header.shapes) +
                  "] would fill too much of its tables");
  }
  if (hashed ? gate.multiplier % 2 == 0 : gate.multiplier != 0) {
    return bad(name + ".multiplier", gate.multiplier, hashed ? "not odd" : "no table of it is hashed");
  }
  return {};
}

}  // namespace

Result<void> validate_gates(const weir_snapshot_header& header, Sections& sections) {
  for (const unsigned family : {4u, 6u}) {
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      if (auto ok = check_gate(header, family, side, sections); !ok) return ok;
    }
  }
  return {};
}

}  // namespace weir::filter
