#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/diagnostic.h"
#include "common/fd.h"
#include "common/progress.h"
#include "common/result.h"
#include "common/wire.h"
#include "control/compile/plan/plan.h"
#include "control/policy/model/policy.h"
#include "filter/format/snapshot.h"

// A checked policy becomes a proven, sealed snapshot: merge -> index -> plan -> build -> prove -> seal
// (docs/develop/compile.md), one file a step. Nothing here publishes.
namespace weir::control {

struct PhaseTime {
  std::string name;  // read, merge, index, plan, build, prove, seal; the daemon adds store, publish, acknowledge
  double milliseconds = 0;
};

struct SnapshotCost {
  uint64_t entries = 0;  // of all lists
  uint64_t snapshot_bytes = 0;
  unsigned probes_v4 = 0, probes_v6 = 0;  // filter probes per packet, both directions counted
};

// Numbers a person asks for; the daemon keeps it beside the running generation.
struct CompileReport : SnapshotCost {
  std::vector<PhaseTime> phases;
  std::vector<ShapeReport> shapes;
  std::vector<GateReport> gates;  // as in the snapshot's header; empty before the first compilation
  uint64_t sets = 0, rules = 0;
  uint64_t longest_chain = 0;  // residuals that one key has, at most
  uint64_t proved_entries = 0, proved_strangers = 0;
};

struct Compiled {
  Fd snapshot;  // sealed memfd, opened read-only
  uint64_t size_bytes = 0;
  std::array<uint64_t, 2> digest = {};  // XXH3-128 (low, high)
  wire::Generation generation;
  CompileReport report;
};

// The secret is drawn anew. Errors (with numbers and a way out): the policy needs more than filter.memory; a canary
// would drop; a proof failed.
// progress: of each phase; may be null.
Result<Compiled> compile(const Policy& policy, wire::Generation generation, unsigned build_threads = 1,
                         Progress* progress = nullptr);

}  // namespace weir::control
