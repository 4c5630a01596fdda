#pragma once

#include "control/daemon/api.h"
#include "control/tell/answer/request.h"

// What lists are worth, and what follows from that: answers that need the counters of the targets, the history, and a
// comparison of all lists.
namespace weir::control {

class Daemon;

void answer_lists(Daemon& daemon, const Request& request, const Caller& caller, ApiServer::Reply reply);
void answer_recommend(Daemon& daemon, const Request& request, const Caller& caller, ApiServer::Reply reply);

}  // namespace weir::control
