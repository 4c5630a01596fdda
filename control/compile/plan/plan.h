#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/compile/merge/merge.h"
#include "control/compile/plan/fit.h"
#include "control/compile/plan/gates.h"
#include "control/policy/model/policy.h"
#include "filter/build/builder.h"
#include "filter/format/snapshot.h"

// plan decides all of a snapshot but its secret and its generation: shapes, content and size.
namespace weir::control {

// The false-positive rate that a sound filter has. A layout whose bits determine the rate has low = rate = high, for
// keys chosen without the secret. Otherwise rate is the formula's expectation, and low and high bound it over secrets.
struct RateBand {
  double low = 0, rate = 0, high = 0;
  bool of_bits = false;
};

struct ShapeReport {
  std::string name;         // "v4 addr/32", "v4 addr/24 bitmap", "v6 addr/48", "v4 dst/32 + proto + dport"
  weir_shape shape;         // as in the snapshot's header
  double expected_fpr = 0;  // 0 for a bitmap
  RateBand band = {};       // of the finished bits
  std::optional<double> measured_fpr = {};  // as the proof counted
  double bits_per_key = 0;                  // of the filter, for each key; 0 for a bitmap
  std::string why;         // the planner's reason: which prefix lengths it serves, how many keys came from expansion
  std::string layout_why;  // and why this layout: "0.5 % wanted", "asked for"; empty when it is not known any more
};

struct Planned {
  filter::SnapshotInput input;
  filter::SnapshotPlan layout;
  std::vector<ShapeReport> shapes;  // as in the snapshot's header
  GateReasons gates;                // why each gate is what it is
};

// The cheapest mixture of shapes for a packet that fits policy.memory_bytes (control/compile/plan/fit.h), and gates in
// what it leaves of that. Error: as fit.
Result<Planned> plan(const Merged& merged, const Policy& policy);

// All of a report that the snapshot itself tells: no reasons.
ShapeReport describe(const weir_shape& shape);

}  // namespace weir::control
