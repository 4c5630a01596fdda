#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "filter/build/builder.h"
#include "filter/format/snapshot.h"

// gates: which tables the gates of a snapshot get, and at which side each flow shape stands. A table costs every packet
// one access, the dearer the larger it is, and saves those that it keeps out all lookups of its side. Chosen is what is
// cheapest for a packet from anywhere; where that hardly beats the lookups alone, the gate is left open.
//
// All costs are constants that were measured once: the same policy gets the same gates, on every machine.
namespace weir::control {

struct GateReport {
  std::string name;                      // "v4 src", "v6 dst"
  uint8_t family = 4;                    // 4 or 6
  uint8_t side = 0;                      // enum weir_side
  weir_gate gate = {};                   // as in the snapshot's header
  std::string why;                       // the planner's reason; empty when it is not known any more
  double expected_share = 1;             // of addresses at random, those that it lets through, as its bits say
  std::optional<double> measured_share;  // as the proof counted
};

using GateReasons = std::array<std::string, WEIR_GATES>;

// Fills input.gates, and gate_side of its flow tables; all else of the input is there. The tables take at most
// most_bytes together. Keys are only counted: build_snapshot sets the bits.
GateReasons choose_gates(filter::SnapshotInput& input, double most_bytes);

// Bytes of the gate's tables where keys of one shape stand alone and lie anywhere. 0: open.
double usual_gate_bytes(unsigned family, weir_layout layout, uint64_t keys);

// Bytes of all tables of the header's gates, in whole pages.
double gate_bytes(const weir_snapshot_header& header);

// All of a report that the header of a finished snapshot tells.
GateReport describe_gate(const weir_snapshot_header& header, unsigned gate);

// Extra ns of one access to a random bit of a table of this size, beside one that lies in L1: asked for a burst ahead.
double gate_access_ns(double table_bytes);

}  // namespace weir::control
