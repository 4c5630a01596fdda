#pragma once

#include <string>

#include "common/result.h"
#include "control/answer/explain_answer.h"
#include "control/daemon/daemon.h"

namespace weir::control {

// The walk of a frame through what runs. frame: as parse_frame_text() takes it. Of a daemon that runs a policy.
Result<ExplainAnswer> explain_frame_answer(const Daemon& daemon, const std::string& frame);

}  // namespace weir::control
