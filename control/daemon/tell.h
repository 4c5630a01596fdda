#pragma once

#include <string>
#include <vector>

#include "control/daemon/daemon.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/drops.h"
#include "control/tell/answer/list.h"
#include "control/tell/answer/stats.h"
#include "control/tell/answer/status.h"

// What controld knows now, as answers tell it: for the API, and for whoever shows it otherwise.
namespace weir::control {

// generation: that they should enforce.
std::vector<TargetStatus> target_statuses(Daemon& daemon, wire::Generation generation);
StatusAnswer status_answer(Daemon& daemon);

// All the others: of a daemon that runs a policy.
StatsAnswer stats_answer(Daemon& daemon, const Daemon::Refreshed& all);
TelemetryAnswer telemetry_answer(Daemon& daemon, const Daemon::Refreshed& all);
ListAnswer list_answer(Daemon& daemon, const std::string& name);  // empty: of every list
FeedsAnswer feeds_answer(Daemon& daemon);
ShapesAnswer shapes_answer(Daemon& daemon);
ShadowAnswer shadow_answer(Daemon& daemon);
PromoteAnswer promote_answer(Daemon& daemon, const ReloadAnswer& reload, const std::string& judged_digest);
HistoryAnswer history_answer(Daemon& daemon, std::vector<HistoryRow> past);
DropsAnswer drops_answer(Daemon& daemon, const DropLog::Page& page);  // also of a daemon that runs none

}  // namespace weir::control
