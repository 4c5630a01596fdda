#pragma once

#include <string>
#include <vector>

#include "common/wire.h"
#include "dataplane/burst/worker.h"
#include "dataplane/ports/devices.h"

namespace weir::dataplane {

// The table at the start: what each port is and gives, and which worker polls which queues.
std::string port_table(const std::vector<PortRow>& rows);
std::string worker_table(const std::vector<Worker>& workers);
// The table at the end.
std::string totals_table(const wire::Stats& stats);

}  // namespace weir::dataplane
