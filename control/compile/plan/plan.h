#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "control/compile/compile.h"
#include "control/compile/merge/merge.h"
#include "control/compile/plan/fit.h"
#include "control/model/policy.h"
#include "filter/build/builder.h"

// plan: which shapes, what is in them, how large the snapshot gets. Everything but the secret and the generation is
// decided here.
namespace weir::control {

struct Planned {
  filter::SnapshotInput input;
  filter::SnapshotPlan layout;
  std::vector<ShapeReport> shapes;  // as in the snapshot's header
};

// The cheapest mixture of shapes for a packet that fits policy.memory_bytes (control/compile/plan/fit.h). Error: as
// fit.
Result<Planned> plan(const Merged& merged, const Policy& policy);

// All of a report that the snapshot itself tells: no reasons.
ShapeReport describe(const weir_shape& shape);

}  // namespace weir::control
