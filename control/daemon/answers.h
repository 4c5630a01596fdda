#pragma once

#include "control/answer/report_json.h"
#include "control/daemon/daemon.h"

namespace weir::control {

// One API request, answered: {"command": reload | status | explain | shapes | stats | list | bypass | detach ...}. An
// unknown command, a missing member, a request that cannot be done: {"error": ...}. docs/use/control.md lists every
// member.
Json answer(Daemon& daemon, const Json& request);

}  // namespace weir::control
