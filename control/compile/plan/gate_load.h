#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "filter/build/builder.h"

// This step counts the keys that stand at a side of a family: how many different leading bits a gate has to know.
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

// So many keys of all bits that lie anywhere.
GateLoad random_load(uint64_t keys, unsigned bits);

}  // namespace weir::control
