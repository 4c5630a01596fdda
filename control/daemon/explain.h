#pragma once

#include <string>

#include "common/result.h"
#include "control/daemon/api.h"
#include "control/daemon/daemon.h"
#include "control/tell/answer/explain.h"
#include "control/tell/answer/request.h"

// Why something drops or passes: an address, a packet or a frame, now or then. Of a daemon that runs a policy.
namespace weir::control {

// What runs says of a key, at once: without provenance, which takes the journal and files.
Result<ExplainAnswer> explain_now(Daemon& daemon, const std::string& key);

// With provenance, of what runs or of a former generation. What runs is told without it when the journal is not free
// soon; what was is waited for.
void answer_explain(Daemon& daemon, const Request& request, const Caller& caller, ApiServer::Reply reply);

}  // namespace weir::control
