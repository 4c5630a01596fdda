#pragma once

#include "control/answer/report_json.h"
#include "control/capture/capture.h"

namespace weir::control {

// docs/operate/capture.md, "Counters".
Json to_json(const CaptureState& state);

}  // namespace weir::control
