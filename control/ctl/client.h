#pragma once

#include <string>

#include "common/result.h"
#include "control/answer/report_json.h"

namespace weir::control::ctl {

// Sends one request and waits for its answer. Error: nobody answers on the socket, with the way out.
Result<Json> call_controld(const std::string& socket, const Json& request);

}  // namespace weir::control::ctl
