#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/prefetch.h"
#include "common/result.h"
#include "filter/format/gate.h"
#include "filter/format/key_shape.h"
#include "filter/format/snapshot.h"
#include "filter/layouts/filter_bits.h"

namespace weir::filter {

// One shape of a validated snapshot, ready to probe.
struct ShapeView {
  KeyShape shape;
  weir_layout layout = WEIR_LAYOUT_LINE8;
  uint8_t directions = 0;            // mask of weir_direction
  uint8_t gate_side = 0;             // flow: at which side's gate it stands
  bool prefetch = false;             // false when the filter fits L2 (prefetching then costs)
  const uint64_t* secret = nullptr;  // [2]
  FilterBits filter;
  FilterBits exact_lines;  // the exact stage as lines to prefetch; hashed only
  uint32_t exact_buckets = 0;
  const uint8_t* exact = nullptr;    // hashed: buckets; bitmap: chunk_of[65536]
  const uint32_t* chunks = nullptr;  // bitmap: rules
};

// A gate of a validated snapshot, ready to ask (filter/format/gate.h).
struct GateView {
  struct Table {
    const uint64_t* bits = nullptr;
    uint8_t prefix_bits = 0;
    uint32_t n_words = 0;  // 0: direct
  };
  weir_gate_kind kind = WEIR_GATE_OPEN;
  uint32_t n_tables = 0;
  uint64_t multiplier = 0;
  Table table[WEIR_MAX_GATE_TABLES];
};

// The definition: an address passes an open gate, and one of which some table knows it.
// address: weir_gate_address_v4 or _v6.
inline bool passes_gate(const GateView& gate, uint64_t address) {
  if (gate.kind != WEIR_GATE_TABLES) return gate.kind == WEIR_GATE_OPEN;
  for (uint32_t t = 0; t < gate.n_tables; t++) {
    const GateView::Table& table = gate.table[t];
    if (weir_gate_knows(table.bits, table.prefix_bits, table.n_words, gate.multiplier, address) != 0) return true;
  }
  return false;
}

// The words that passes_gate() is going to read come into the cache.
inline void prefetch_gate(const GateView& gate, uint64_t address) {
  for (uint32_t t = 0; t < gate.n_tables; t++) {
    const GateView::Table& table = gate.table[t];
    const weir_gate_place place = weir_gate_place_of(table.prefix_bits, table.n_words, gate.multiplier, address);
    prefetch_line(table.bits + place.word);
  }
}

// Bytes that have been checked from end to end: after open() every offset, id and bound holds, so lookups need none of
// their own, and every loop over them has a constant bound. Borrows the bytes; position independent.
class SnapshotView {
 public:
  // bytes: exactly one snapshot, 64-byte aligned, not changed by anybody while the view lives. Errors
  // name the field and the value. Reads header.total_bytes bytes once.
  static Result<SnapshotView> open(std::span<const std::byte> bytes);

  const weir_snapshot_header& header() const { return *header_; }
  std::span<const ShapeView> shapes() const { return {shapes_, header_->n_shapes}; }
  // family: 4 or 6; side: enum weir_side.
  const GateView& gate(uint32_t family, uint32_t side) const { return gates_[weir_gate_number(family, side)]; }
  const GateView& xdp_gate(uint32_t family, uint32_t side) const { return xdp_gates_[weir_gate_number(family, side)]; }
  std::span<const weir_list> lists() const { return {lists_, header_->n_lists}; }
  const weir_set& set(uint32_t id) const { return sets_[id]; }
  const weir_rule& rule(uint32_t id) const { return rules_[id]; }
  std::span<const weir_residual> residuals() const { return {residuals_, header_->n_residuals}; }
  // A chain's first residual; the chain ends with the one that is `last`.
  const weir_residual* chain(uint32_t id) const { return residuals_ + id; }
  // Calls visit(residual) for each of the chain; 0: none.
  template <class Visit>
  void visit_chain(uint32_t id, Visit visit) const {
    if (id == 0) return;
    const weir_residual* residual = chain(id);
    for (uint32_t i = 0; i < WEIR_MAX_CHAIN; i++, residual++) {
      visit(*residual);
      if (residual->last != 0) return;
    }
  }

 private:
  const weir_snapshot_header* header_ = nullptr;
  const weir_list* lists_ = nullptr;
  const weir_set* sets_ = nullptr;
  const weir_rule* rules_ = nullptr;
  const weir_residual* residuals_ = nullptr;
  GateView gates_[WEIR_GATES] = {}, xdp_gates_[WEIR_GATES] = {};
  ShapeView shapes_[WEIR_MAX_SHAPES] = {};
};

// True when a filter of so many bytes leaves L2, so that its lines are worth a prefetch.
bool outgrows_l2(size_t filter_bytes);

}  // namespace weir::filter
