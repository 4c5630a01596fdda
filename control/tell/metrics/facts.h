#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/tell/answer/list.h"
#include "control/tell/answer/stats.h"
#include "control/tell/answer/status.h"
#include "control/tell/metrics/tally.h"

namespace weir::control::metrics {

// All that metrics are made of: answers that there are anyhow. Before the first policy is compiled, status and tally.
struct Facts {
  double now = 0;         // Unix seconds
  double started_at = 0;  // controld, Unix seconds
  StatusAnswer status;
  std::vector<TargetMeasures> targets;  // asked just now; stats.fresh: they answered
  ListAnswer lists;
  FeedsAnswer feeds;
  ShapesAnswer shapes;
  Tally tally;
  uint64_t traffic_taken = 0, traffic_lost = 0;  // samples for `plan`
};

// In the text format of Prometheus.
constexpr const char* kTextType = "text/plain; version=0.0.4; charset=utf-8";
std::string metrics_text(const Facts& facts);

}  // namespace weir::control::metrics
