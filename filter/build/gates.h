#pragma once

#include <cstddef>
#include <span>

#include "common/result.h"
#include "filter/build/builder.h"

// Gates: which address bits are set is read off the tables of keys and the runs of networks themselves, so that none is
// forgotten (filter/format/gate.h says what a bit means).
namespace weir::filter {

// Writes header.gates from input.gates: all but where the tables lie, n_set and multiplier. The header's shapes are
// there, so that it is known what stands where. Error: a choice that the format cannot hold, or whose short keys would
// fill more than kMaxGateFills (filter/format/rules.h) of its tables.
Result<void> plan_gates(const SnapshotInput& input, weir_snapshot_header& header);

// Fills the tables of the gates in the header at the beginning of `out`, and their n_set and multiplier there. out: the
// zeroed memory of build_snapshot, with a header that plan_snapshot made from this input.
void build_gates(const SnapshotInput& input, std::span<std::byte> out, unsigned threads);

}  // namespace weir::filter
