#pragma once

#include <cstdint>
#include <vector>

#include "filter/format/key_shape.h"
#include "filter/frame/frame.h"
#include "filter/read/view.h"

namespace weir::dataplane {

using filter::kDestination;
using filter::kSource;
using filter::Side;

// In what a lookup looks. Where base and overlay have the same keys, the overlay's lookup comes right before the
// base's, and what it finds stands in place of what the base's finds.
enum class Part : uint8_t {
  base,         // in the base; the overlay has no such keys
  replaceable,  // in the base, but for the packets in which the lookup before this one has found a key
  replacing,    // in the overlay; the base's lookup of these keys follows
  added,        // in the overlay; the base is not asked for such keys here
};
constexpr bool is_of_overlay(Part part) {
  return part >= Part::replacing;
}

// One pass of a burst over one table: the keys of one shape, taken from one side of the packets. A flow shape's keys
// hold both sides: one lookup, which counts as source.
struct Lookup {
  const filter::ShapeView* shape;
  Side side;
  Side gate_side;    // at which side's gate it stands
  filter::Key mask;  // the bits that its keys may have
  Part part = Part::base;
};

// What the parse stage is to find out.
struct Wants {
  uint8_t tunnels;  // whose layers are packets, too: mask of enum weir_tunnel
  bool fields;      // some lookup of IPv4 asks for ports or protocol
};

// overlay: null where there is none; one that stands on the base (filter/read/overlay.h). Both live as long as the
// lookups do.
std::vector<Lookup> lookups_of(const filter::SnapshotView& base, const filter::SnapshotView* overlay);
Wants wants_of(const filter::SnapshotView& base, const filter::SnapshotView* overlay);

}  // namespace weir::dataplane
