#pragma once

#include "control/answer/report_json.h"
#include "control/daemon/daemon.h"

namespace weir::control {

// Answers `stats`: the counters of every target, asked now, and their sums. A target that does not answer in time
// counts with what it told last; its own line says so ("fresh": false).
Json stats(Daemon& daemon, const Json& request);

// What one target counted, as last told: a member of `targets`. fresh: it was told just now.
Json target_stats(const TargetState& state, bool fresh);

}  // namespace weir::control
