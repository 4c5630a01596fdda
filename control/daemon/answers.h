#pragma once

#include <string>

#include "control/answer/request.h"
#include "control/daemon/daemon.h"

namespace weir::control {

// One API request, answered with a line of JSON: reload | status | explain | shapes | stats | list | bypass | detach
// ... An unknown command, a missing member, a request that cannot be done: {"error": ...}. docs/use/api.md lists every
// member.
std::string answer(Daemon& daemon, const Request& request);

}  // namespace weir::control
