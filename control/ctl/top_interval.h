#pragma once

#include "control/answer/report_json.h"

namespace weir::control::ctl {

// What happened between two answers of controld to `telemetry`: rates by the targets' own time stamps, shares and
// percentiles of what was added in between. docs/operate/telemetry.md lists every member. Throws
// nlohmann::json::exception when an answer is not understood.
Json interval_between(const Json& before, const Json& after);

}  // namespace weir::control::ctl
