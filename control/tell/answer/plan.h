#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/compile/preview/lists.h"
#include "control/compile/preview/radius.h"
#include "control/tell/answer/reload.h"

// What a candidate would do.
namespace weir::control {

struct PlanCost {
  uint64_t entries = 0, snapshot_bytes = 0;
  unsigned probes_v4 = 0, probes_v6 = 0;
};

struct PlanAnswer {
  bool ok = false;
  wire::Generation generation;
  std::vector<ListPreview> lists;
  std::vector<WideEntry> widest;
  std::vector<Concern> concerns;
  PlanCost before, after;
  std::vector<std::pair<std::string, double>> phases;
  double total_ms = 0;
  std::optional<Radius> radius;
  std::string why_no_radius;
  std::vector<RefusedFeed> refused;
  std::vector<OverLimit> over_limits;
  uint64_t errors = 0, warnings = 0;
  std::vector<Diagnostic> diagnostics;
  std::string error;
};
void members(Fields& f, PlanAnswer& answer);

}  // namespace weir::control
