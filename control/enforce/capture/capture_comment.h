#pragma once

#include <string>

#include "common/wire.h"
#include "control/lists/book/claims.h"
#include "filter/format/packet.h"

namespace weir::control {

// Why the frame was dropped, for its comment in a capture file. entry: null when it is not known.
std::string capture_comment(const wire::Sample& sample, const Origin* entry);

// The layer that dropped the frame.
weir_packet packet_of(const wire::Sample& sample);

}  // namespace weir::control
