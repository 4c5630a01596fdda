#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "control/compile/prove/lookup.h"
#include "control/policy/model/packet.h"
#include "filter/probe/exact.h"
#include "filter/read/overlay.h"

// The lookups of a whole packet, one by one: what match() asks, for whoever tells how it came to its answer.
namespace weir::control {

inline uint8_t direction_of(weir_side side) {
  return side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
}

// One table to ask, and the one of the overlay with the same keys, whose rules stand in place of its own. Either may
// be missing.
struct ShapePair {
  const filter::ShapeView* of_base;
  const filter::ShapeView* of_overlay;
  filter::KeyShape shape() const { return (of_base != nullptr ? of_base : of_overlay)->shape; }
};

// The longest address shapes first.
std::vector<ShapePair> shapes_of(const Enforcing& enforcing, uint8_t family);

// The sides, a mask of weir_direction, at whose gates the packet's addresses get through.
uint8_t sides_through(const Enforcing& enforcing, const weir_packet& packet, Gates gates);

// The packet's key; empty when it has not all fields of the shape. side: of an address shape.
std::optional<filter::Key> key_of(filter::KeyShape shape, const weir_packet& packet, weir_side side);

// visit(snapshot, shape, side, key, rule) for every key of the packet that is looked up; of base and overlay the one
// that answers. rule: 0: it does not have the key. A flow shape's key counts as of the source.
// sides: mask of weir_direction, the sides on which address shapes are asked. through: sides_through().
template <class Visit>
void visit_keys(const Enforcing& enforcing, const weir_packet& packet, uint8_t sides, uint8_t through, Visit visit) {
  const auto is_asked = [&](const filter::ShapeView* shape, weir_side side) {
    if (shape == nullptr) return false;
    if (shape->shape.flow) {
      return side == WEIR_SIDE_SOURCE && (through & direction_of(static_cast<weir_side>(shape->gate_side))) != 0;
    }
    return (sides & shape->directions & through & direction_of(side)) != 0;
  };
  for (const ShapePair& pair : shapes_of(enforcing, packet.family)) {
    for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      const bool in_overlay = is_asked(pair.of_overlay, side), in_base = is_asked(pair.of_base, side);
      if (!in_overlay && !in_base) continue;
      const std::optional<filter::Key> key = key_of(pair.shape(), packet, side);
      if (!key) continue;
      const uint32_t newer = in_overlay ? filter::find_rule(*pair.of_overlay, *key) : 0;
      if (newer != 0 || !in_base) {
        visit(*enforcing.overlay, *pair.of_overlay, side, *key, newer);
      } else {
        visit(enforcing.base, *pair.of_base, side, *key, filter::find_rule(*pair.of_base, *key));
      }
    }
  }
}

}  // namespace weir::control
