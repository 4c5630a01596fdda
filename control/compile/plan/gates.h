#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "filter/build/builder.h"
#include "filter/format/snapshot.h"

// This step chooses the tables of a snapshot's gates, by what stands at them.
namespace weir::control {

constexpr unsigned kGateBits = 64;  // leading bits of an address that a gate may look at

// One shape at one side.
struct GateLoad {
  unsigned bits = 0;                             // leading bits of the address that its keys tell, at most 64
  std::array<double, kGateBits + 1> prefixes{};  // [b]: different leading b bits of its keys; up to `bits`
  double keys = 0;
  double shape_keys = 0;   // of the whole shape, on whichever side they stand
  bool is_bitmap = false;  // networks: they differ from each other, so they fill no bit of a direct table twice
  double lookup_ns = 0;    // what a packet pays that it is asked about

  bool stands() const { return keys > 0; }
  // Different leading b bits of the addresses that its keys cover.
  double covered(unsigned b) const;
};

// A key table at a side, by the rules that have lists there; a flow table: all of its keys.
GateLoad load_of(const filter::KeyTable& table, unsigned side, const std::vector<weir_rule>& rules);
// The networks at a side.
GateLoad load_of(const std::vector<filter::NetworkRun>& networks, unsigned side, const std::vector<weir_rule>& rules);

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
// take at most most_bytes together. Keys are only counted: build_snapshot sets the bits.
GateReasons choose_gates(filter::SnapshotInput& input, double most_bytes);

// Bytes of the gate's tables where keys of one shape stand alone and lie anywhere. 0: open.
double usual_gate_bytes(unsigned family, weir_layout layout, uint64_t keys);

// Bytes of all tables of the header's gates, in whole pages; tables that two gates share count once.
double gate_bytes(const weir_snapshot_header& header);

// All of the reports that the header of a finished snapshot tells: of the data plane's gates, then of XDP's.
std::array<GateReport, 2 * WEIR_GATES> describe_gates(const weir_snapshot_header& header);

// Extra ns of one access to a random bit of a table of this size, beside one that lies in L1: asked for a burst ahead.
double gate_access_ns(double table_bytes);

}  // namespace weir::control
