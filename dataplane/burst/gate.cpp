#include <bit>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

namespace {

using filter::GateView;

// Of the slots in `packets`, those that a gate of IPv4 lets through.
uint64_t through_v4(const filter::Kernels& kernels, const GateView& gate, Side side, const Burst& burst,
                    uint64_t packets) noexcept {
  if (gate.kind != WEIR_GATE_TABLES) return gate.kind == WEIR_GATE_OPEN ? packets : 0;
  const uint32_t n = 64 - static_cast<uint32_t>(std::countl_zero(packets));
  const filter::GateView::Table& table = gate.table[0];
  return kernels.gate_v4(table.bits, table.prefix_bits, burst.v4_addresses, side, n) & packets;
}

// Table by table, and of slots that hold other packets, too: their bits mean nothing.
uint64_t through_v6(const GateView& gate, Side side, const Burst& burst, uint64_t packets) noexcept {
  if (gate.kind != WEIR_GATE_TABLES) return gate.kind == WEIR_GATE_OPEN ? packets : 0;
  const uint32_t n = 64 - static_cast<uint32_t>(std::countl_zero(packets));
  uint64_t through = 0;
  for (uint32_t t = 0; t < gate.n_tables; t++) {
    const GateView::Table table = gate.table[t];
    for (uint32_t slot = 0; slot < n; slot++) {
      const uint64_t address = weir_gate_address_v6(burst.v6_high[side][slot]);
      const uint32_t index = weir_gate_index(table.prefix_bits, table.index_bits, gate.multiplier, address);
      through |= uint64_t{weir_gate_bit(table.bits, index)} << slot;
    }
  }
  return through & packets;
}

uint64_t suspects_of(const Burst& burst) noexcept {
  return (burst.asked[kSource] | burst.asked[kDestination] | burst.in_line) & low_bits(burst.n);
}

}  // namespace

GateTables gate_tables(const WorkerSnapshot& snapshot) noexcept {
  GateTables tables = {};
  for (const Side side : {kSource, kDestination}) {
    const GateView &v4 = snapshot.gate(4, side), &v6 = snapshot.gate(6, side);
    if (v4.kind == WEIR_GATE_TABLES) {
      tables.v4[side] = reinterpret_cast<const uint8_t*>(v4.table[0].bits);
      tables.v4_shift[side] = 32 - v4.table[0].prefix_bits + 3;
    }
    if (v6.kind == WEIR_GATE_TABLES) tables.v6[side] = &v6;
  }
  return tables;
}

uint64_t ask_gates(const WorkerSnapshot& snapshot, const filter::Kernels& kernels, Burst& burst) noexcept {
  for (const Side side : {kSource, kDestination}) {
    burst.asked[side] = 0;
    if (burst.v4 != 0) burst.asked[side] |= through_v4(kernels, snapshot.gate(4, side), side, burst, burst.v4);
    if (burst.v6 != 0) burst.asked[side] |= through_v6(snapshot.gate(6, side), side, burst, burst.v6);
  }
  return suspects_of(burst);
}

uint64_t suspect_all(Burst& burst) noexcept {
  burst.asked[kSource] = burst.asked[kDestination] = burst.v4 | burst.v6;
  return suspects_of(burst);
}

}  // namespace weir::dataplane
