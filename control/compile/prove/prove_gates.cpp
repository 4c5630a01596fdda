#include <fmt/format.h>

#include <cmath>

#include "control/compile/plan/gates.h"
#include "control/compile/prove/chance.h"
#include "control/compile/prove/prove.h"
#include "control/compile/prove/split_mix.h"
#include "filter/format/gate.h"

namespace weir::control {
namespace {

constexpr unsigned kRandomAddresses = 65536;  // at each gate

// A random address falls on each of its bits equally often. Hashed tables of fewer than 64 leading bits are only nearly
// even, and are not held to it.
bool is_even(const filter::GateView::Table& table) {
  return table.index_bits == table.prefix_bits || table.prefix_bits == 64;
}

bool knows(const filter::GateView& gate, unsigned t, uint64_t address) {
  const filter::GateView::Table& table = gate.table[t];
  return weir_gate_bit(table.bits, weir_gate_index(table.prefix_bits, table.index_bits, gate.multiplier, address)) != 0;
}

}  // namespace

Result<void> prove_gates(const filter::SnapshotView& snapshot, uint64_t seed, std::array<double, WEIR_GATES>& shares) {
  SplitMix random{seed};
  for (unsigned g = 0; g < WEIR_GATES; g++) {
    const filter::GateView& gate = snapshot.gate(g < weir_gate_number(6, 0) ? 4 : 6, g % 2);
    unsigned passed = 0, known[WEIR_MAX_GATE_TABLES] = {};
    for (unsigned i = 0; i < kRandomAddresses; i++) {
      const uint64_t address = random.next();
      passed += filter::passes_gate(gate, address);
      for (unsigned t = 0; t < gate.n_tables; t++) known[t] += knows(gate, t, address);
    }
    shares[g] = static_cast<double>(passed) / kRandomAddresses;
    for (unsigned t = 0; t < gate.n_tables; t++) {
      if (!is_even(gate.table[t])) continue;
      const double set = static_cast<double>(snapshot.header().gates[g].table[t].n_set);
      const double expected = std::ldexp(set, -int{gate.table[t].index_bits}) * kRandomAddresses;
      const double most_off = bernstein(1, expected);
      if (std::abs(known[t] - expected) <= most_off) continue;
      return Error{
          fmt::format("proof failed: of {} random addresses {} pass table {} of the gate {}; its bits give {:.1f} "
                      "+- {:.1f}",
                      kRandomAddresses, known[t], t, describe_gate(snapshot.header(), g).name, expected, most_off)};
    }
  }
  return {};
}

}  // namespace weir::control
