#pragma once

#include "control/capture.h"
#include "control/report_json.h"

namespace weir::control {

// docs/capture.md, "Counters".
Json to_json(const CaptureState& state);

}  // namespace weir::control
