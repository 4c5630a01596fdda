#pragma once

#include "control/answer/report_json.h"
#include "control/daemon/daemon.h"

namespace weir::control {

// Answers `telemetry`: the counters of every target and what its workers and ports measure, asked now, as they were
// told. Whoever wants rates asks twice (control/ctl/top_interval.h). docs/operate/telemetry.md lists every member.
Json telemetry(Daemon& daemon, const Json& request);

}  // namespace weir::control
