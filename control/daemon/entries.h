#pragma once

#include "control/daemon/api.h"
#include "control/tell/answer/request.h"

// Requests for the entries of a list, page by page.
namespace weir::control {

class Daemon;

// With where each is written, and of those that were added who did it, when and why.
void answer_entries(Daemon& daemon, const Request& request, const Caller& caller, ApiServer::Reply reply);
// All that is enforced of it, as text alone.
void answer_export(Daemon& daemon, const Request& request, const Caller& caller, ApiServer::Reply reply);

}  // namespace weir::control
