#pragma once

#include <string>

#include "control/daemon/api.h"

namespace weir::control {

class Daemon;
class PanicSwitch;

// One API request, a line of JSON, answered with another: reload | status | explain | shapes | stats | list | bypass |
// detach ... An unknown command, a missing member, a request that cannot be done: {"error": ...}. docs/use/api.md lists
// every member. What takes time is answered when it is done.
// A caller who may only look is refused what changes anything; each change is logged with who asked for it.
void answer(Daemon& daemon, const std::string& line, const Caller& caller, ApiServer::Reply reply);

// The same on the panic switch's own socket: bypass and detach, and nothing else. By its thread.
void answer_panic(PanicSwitch& panic, const std::string& line, const Caller& caller, ApiServer::Reply reply);

}  // namespace weir::control
