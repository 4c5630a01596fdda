#include <bit>
#include <span>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

namespace {

using filter::GateView;

filter::GateWords words_of(const GateView& gate, const GateView::Table& table) noexcept {
  return {table.bits, table.n_words, table.prefix_bits, gate.multiplier};
}

uint64_t known_v4(const filter::Kernels& kernels, const GateView& gate, const GateView::Table& table, Side side,
                  const Burst& burst, uint32_t n) noexcept {
  if (table.n_words == 0) return kernels.gate_v4(table.bits, table.prefix_bits, burst.v4_addresses, side, n);
  return kernels.gate_words_v4(words_of(gate, table), burst.v4_addresses, side, n);
}

uint64_t known_v6(const filter::Kernels& kernels, const GateView& gate, const GateView::Table& table, Side side,
                  const Burst& burst, uint32_t n) noexcept {
  const uint64_t* high = burst.v6_high[side];
  if (table.n_words != 0) return kernels.gate_words_v6(words_of(gate, table), high, n);
  uint64_t known = 0;
  for (uint32_t slot = 0; slot < n; slot++) {
    const uint64_t address = weir_gate_address_v6(high[slot]);
    known |= uint64_t{weir_gate_knows(table.bits, table.prefix_bits, 0, 0, address)} << slot;
  }
  return known;
}

// The packets of a family that its gate lets through. Slots that hold other packets are asked, too: their answers mean
// nothing.
template <class Known>
uint64_t through(const GateView& gate, uint64_t packets, Known known) noexcept {
  if (packets == 0) return 0;
  if (gate.kind != WEIR_GATE_TABLES) return gate.kind == WEIR_GATE_OPEN ? packets : 0;
  const uint32_t n = 64 - static_cast<uint32_t>(std::countl_zero(packets));
  uint64_t through = 0;
  for (uint32_t t = 0; t < gate.n_tables; t++) through |= known(gate.table[t], n);
  return through & packets;
}

uint64_t suspects_of(const Burst& burst) noexcept {
  return (burst.asked[kSource] | burst.asked[kDestination] | burst.in_line) & low_bits(burst.n);
}

}  // namespace

AskedTables asked_tables(const WorkerSnapshot& snapshot) noexcept {
  AskedTables asked;
  for (const Side side : {kSource, kDestination}) {
    const GateView &v4 = snapshot.gate(4, side), &v6 = snapshot.gate(6, side);
    for (const GateView::Table& table : std::span(v4.table, v4.n_tables)) {
      if (table.n_words == 0 && asked.direct_v4[side] == nullptr) {
        asked.direct_v4[side] = reinterpret_cast<const uint8_t*>(table.bits);
        asked.direct_shift[side] = 32u - table.prefix_bits + 3u;
      } else {
        asked.v4[asked.n_v4++] = {table.bits, v4.multiplier, table.n_words, table.prefix_bits, side};
      }
    }
    for (const GateView::Table& table : std::span(v6.table, v6.n_tables)) {
      asked.v6[asked.n_v6++] = {table.bits, v6.multiplier, table.n_words, table.prefix_bits, side};
    }
  }
  return asked;
}

uint64_t ask_gates(const WorkerSnapshot& snapshot, const filter::Kernels& kernels, Burst& burst) noexcept {
  for (const Side side : {kSource, kDestination}) {
    const GateView &v4 = snapshot.gate(4, side), &v6 = snapshot.gate(6, side);
    burst.asked[side] = through(v4, burst.v4, [&](const GateView::Table& table, uint32_t n) {
      return known_v4(kernels, v4, table, side, burst, n);
    });
    burst.asked[side] |= through(v6, burst.v6, [&](const GateView::Table& table, uint32_t n) {
      return known_v6(kernels, v6, table, side, burst, n);
    });
  }
  return suspects_of(burst);
}

uint64_t suspect_all(Burst& burst) noexcept {
  burst.asked[kSource] = burst.asked[kDestination] = burst.v4 | burst.v6;
  return suspects_of(burst);
}

}  // namespace weir::dataplane
