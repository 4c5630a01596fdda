#pragma once

#include <span>

#include "common/telemetry.h"
#include "dataplane/ports/devices.h"

namespace weir::dataplane {

// What the drivers count, and the link as they know it now. Any thread may ask.
wire::Ports read_port_stats(std::span<const PortRow> rows);

}  // namespace weir::dataplane
