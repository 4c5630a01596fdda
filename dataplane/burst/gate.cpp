
#include <bit>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

namespace {

using filter::GateView;

// Of the slots in `packets`, those that a gate of IPv4 lets through.
uint64_t through_v4(const filter::Kernels& kernels, const GateView& gate, Side side, const Burst& burst,
                    uint64_t packets) noexcept {
  if (gate.kind != WEIR_GATE_TABLES) return gate.kind == WEIR_GATE_OPEN ? packets : 0;
  const auto first = static_cast<uint32_t>(std::countr_zero(packets));
  const uint32_t n = 64 - static_cast<uint32_t>(std::countl_zero(packets)) - first;
  const filter::GateView::Table& table = gate.table[0];
  return kernels.gate_v4(table.bits, table.prefix_bits, burst.v4_addresses + first, side, n) << first & packets;
}

// Table by table, so that no packet's branch depends on what a table says of another.
uint64_t through_v6(const GateView& gate, Side side, const Burst& burst, uint64_t packets) noexcept {
  if (gate.kind != WEIR_GATE_TABLES) return gate.kind == WEIR_GATE_OPEN ? packets : 0;
  uint64_t through = 0;
  for (uint32_t t = 0; t < gate.n_tables; t++) {
    const GateView::Table table = gate.table[t];
    for (uint64_t left = packets; left != 0; left &= left - 1) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(left));
      const uint64_t address = weir_gate_address_v6(burst.hdr[slot].address[side][0]);
      const uint32_t index = weir_gate_index(table.prefix_bits, table.index_bits, gate.multiplier, address);
      through |= uint64_t{weir_gate_bit(table.bits, index)} << slot;
    }
  }
  return through;
}

// asked is set: what waits.
Waiting waiting_of(uint32_t first, Burst& burst) noexcept {
  const uint64_t received = low_bits(burst.n) & ~low_bits(first);
  Waiting waiting = {(burst.asked[kSource] | burst.asked[kDestination] | burst.in_line) & received, 0};
  for (uint64_t left = waiting.frames; left != 0; left &= left - 1) {
    const auto slot = static_cast<uint32_t>(std::countr_zero(left));
    waiting.bytes += burst.bytes[slot] = burst.pkt[slot]->pkt_len;
  }
  return waiting;
}

}  // namespace

Waiting gate(const WorkerSnapshot& snapshot, const filter::Kernels& kernels, uint32_t first, Burst& burst) noexcept {
  const uint64_t old = low_bits(first);
  const uint64_t v4 = burst.v4 & ~old, v6 = burst.v6 & ~old;
  for (const Side side : {kSource, kDestination}) {
    burst.asked[side] &= old;
    if (v4 != 0) burst.asked[side] |= through_v4(kernels, snapshot.gate(4, side), side, burst, v4);
    if (v6 != 0) burst.asked[side] |= through_v6(snapshot.gate(6, side), side, burst, v6);
  }
  return waiting_of(first, burst);
}

Waiting go_around_gates(uint32_t first, Burst& burst) noexcept {
  const uint64_t packets = (burst.v4 | burst.v6) & ~low_bits(first);
  for (const Side side : {kSource, kDestination}) burst.asked[side] = (burst.asked[side] & low_bits(first)) | packets;
  return waiting_of(first, burst);
}

}  // namespace weir::dataplane
