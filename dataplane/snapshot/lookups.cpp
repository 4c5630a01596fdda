#include "dataplane/snapshot/lookups.h"

#include <algorithm>

#include "filter/format/rules.h"
#include "filter/read/overlay.h"

namespace weir::dataplane {

namespace {

using filter::ShapeView;
using filter::SnapshotView;

bool is_asked(const ShapeView& shape, Side side) {
  return (shape.directions & (side == kSource ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION)) != 0;
}

Lookup lookup_of(const ShapeView& shape, Side side, Part part) {
  const Side gate_side = shape.shape.flow ? static_cast<Side>(shape.gate_side) : side;
  return {&shape, side, gate_side, filter::key_mask(shape.shape), part};
}

bool asks_fields(const SnapshotView& view) {
  const auto shapes = view.shapes();
  return std::any_of(shapes.begin(), shapes.end(), [](const ShapeView& shape) {
    return shape.shape.family == 4 && (shape.shape.with_port || shape.shape.flow);
  });
}

}  // namespace

std::vector<Lookup> lookups_of(const SnapshotView& base, const SnapshotView* overlay) {
  std::vector<Lookup> lookups;
  for (const ShapeView& shape : base.shapes()) {
    const ShapeView* changed = overlay != nullptr ? find_shape(*overlay, shape.shape) : nullptr;
    for (const Side side : {kSource, kDestination}) {
      if (!is_asked(shape, side)) continue;
      if (changed != nullptr) lookups.push_back(lookup_of(*changed, side, Part::replacing));
      lookups.push_back(lookup_of(shape, side, changed != nullptr ? Part::replaceable : Part::base));
    }
  }
  if (overlay == nullptr) return lookups;
  for (const ShapeView& shape : overlay->shapes()) {
    const ShapeView* of_base = find_shape(base, shape.shape);
    for (const Side side : {kSource, kDestination}) {
      const bool is_replacing = of_base != nullptr && is_asked(*of_base, side);
      if (is_asked(shape, side) && !is_replacing) lookups.push_back(lookup_of(shape, side, Part::added));
    }
  }
  return lookups;
}

Wants wants_of(const SnapshotView& base, const SnapshotView* overlay) {
  return {.tunnels = base.header().tunnels, .fields = asks_fields(base) || (overlay && asks_fields(*overlay))};
}

}  // namespace weir::dataplane
