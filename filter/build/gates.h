#pragma once

#include <cstddef>
#include <span>

#include "common/result.h"
#include "filter/build/builder.h"

// Gates: which address bits are set is read off the tables of keys and the runs of networks themselves, so that none is
// forgotten (filter/format/gate.h says what a bit means).
namespace weir::filter {

// Writes the gates of both planes from the input's choices: all but where the tables lie, n_set and multiplier. The
// header's shapes are there, so that it is known what stands where. Error: a choice that the format cannot hold, or
// whose short keys would fill more than kMaxGateFills of its tables.
Result<void> plan_gates(const SnapshotInput& input, weir_snapshot_header& header);

// The gate before this one in the header that has the same bits: of the same plan, over the same keys. null: none.
const weir_gate* same_gate(const SnapshotInput& input, const weir_snapshot_header& header, const weir_gate& gate);

// Gives the tables their sections by place(section&). Gates with the same bits get the same sections.
template <class Place>
void place_gates(const SnapshotInput& input, weir_snapshot_header& header, Place place) {
  for (weir_gate* gates : {header.gates, header.xdp_gates}) {
    for (unsigned g = 0; g < WEIR_GATES; g++) {
      if (const weir_gate* same = same_gate(input, header, gates[g])) {
        gates[g] = *same;
        continue;
      }
      for (weir_gate_table& table : std::span(gates[g].table, gates[g].n_tables)) place(table.bits);
    }
  }
}

// Fills the tables of the gates in the header at the beginning of `out`, and their n_set and multiplier there. out: the
// zeroed memory of build_snapshot, with a header that plan_snapshot made from this input.
void build_gates(const SnapshotInput& input, std::span<std::byte> out, unsigned threads);

}  // namespace weir::filter
