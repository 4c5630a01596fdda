#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "control/compile.h"
#include "control/levels.h"
#include "control/merge.h"
#include "control/policy.h"
#include "filter/builder.h"

// plan: which shapes, what is in them, how large the snapshot gets. Everything but the secret and the generation is
// decided here.
namespace weir::control {

struct Planned {
  filter::SnapshotInput input;
  filter::SnapshotPlan layout;
  std::vector<ShapeReport> shapes;  // as in the snapshot's header
};

// Tries the levels with the fewest nanoseconds a packet, then ones with less and less expansion, until the snapshot
// fits policy.memory_bytes. Error: even the smallest is too large; says needed, allowed, the largest shapes, ways out.
Result<Planned> plan(const Merged& merged, const Policy& policy);

// "v4 addr/32", "v4 addr/24 bitmap", "v6 addr/48", "v4 addr/32 + port"
std::string shape_name(filter::KeyShape shape, bool bitmap);

}  // namespace weir::control
