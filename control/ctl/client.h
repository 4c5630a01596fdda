#pragma once

#include <string>

#include "common/result.h"
#include "control/answer/request.h"

namespace weir::control::ctl {

// Sends one request and waits for its answer. Error: nobody answers on the socket, with the way out.
Result<Document> call_controld(const std::string& socket, const Request& request);

}  // namespace weir::control::ctl
