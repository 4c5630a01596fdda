#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/policy/model/target.h"
#include "filter/build/builder.h"
#include "filter/format/snapshot.h"

// This step chooses the tables of a snapshot's gates, by the keys that stand at them (gate_load.h).
namespace weir::control {

// A table costs every packet one access, the dearer the larger it is, and saves the packets that it keeps out all
// lookups of its side. For each plane the planner takes the tables that are cheapest for a packet from anywhere. Where
// they hardly beat the lookups alone, it leaves the gate open. docs/develop/gate.md says when networks and hosts get a
// table each.
//
// All costs are constants that were measured once: the same policy gets the same gates, on every machine.

struct GateReport {
  std::string name;                      // "v4 src", "v6 dst, XDP"
  uint8_t family = 4;                    // 4 or 6
  uint8_t side = 0;                      // enum weir_side
  bool is_of_xdp = false;                // else of the data plane
  weir_gate gate = {};                   // as in the snapshot's header
  std::string why;                       // the planner's reason; empty when it is not known any more
  double expected_share = 1;             // of addresses at random, those that it lets through, as its bits say
  std::optional<double> measured_share;  // as the proof counted
};

// In the order of describe_gates().
using GateReasons = std::array<std::string, 2 * WEIR_GATES>;

// Fills the input's gates of both planes, and gate_side of its flow tables; all else of the input is there. The tables
// take at most most_bytes together. Keys are only counted: build_snapshot sets the bits. kinds: mask of TargetKind; the
// gates of other planes are open.
GateReasons choose_gates(filter::SnapshotInput& input, double most_bytes, uint8_t kinds = kAllKinds);

// Bytes of the gate's tables where keys of one shape stand alone and lie anywhere. 0: open.
double usual_gate_bytes(unsigned family, weir_layout layout, uint64_t keys);

// Bytes of all tables of the header's gates, in whole pages; tables that two gates share count once.
double gate_bytes(const weir_snapshot_header& header);

// All of the reports that the header of a finished snapshot tells: of the data plane's gates, then of XDP's.
std::array<GateReport, 2 * WEIR_GATES> describe_gates(const weir_snapshot_header& header);

// Extra ns of one access to a random bit of a table of this size, beside one that lies in L1: asked for a burst ahead.
double gate_access_ns(double table_bytes);

}  // namespace weir::control
