#pragma once

#include "dataplane/serve/control.h"

namespace weir::dataplane {

// The commands below /weir of DPDK's telemetry socket (dpdk-telemetry.py), answered by DPDK's own threads as long as
// this object lives. One at a time: DPDK gives a command no context of its own.
class TelemetryCommands {
 public:
  explicit TelemetryCommands(const Control& control);
  ~TelemetryCommands();
  TelemetryCommands(const TelemetryCommands&) = delete;
};

}  // namespace weir::dataplane
