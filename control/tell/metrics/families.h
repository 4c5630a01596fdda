#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "control/tell/metrics/facts.h"

namespace weir::control::metrics {

// Every family that there is, each once; docs/operate/metrics.md lists them. A target that did not answer just now has
// its weir_target_up of 0, and nothing of what it counts: what it told last would look as if nothing happened there.
std::vector<prometheus::MetricFamily> families(const Facts& facts);

}  // namespace weir::control::metrics
