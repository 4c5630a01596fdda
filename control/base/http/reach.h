#pragma once

#include "common/confine/helpers.h"

namespace weir::control {

// Of a helper that speaks HTTP with libcurl: the network, threads, and the files that names and certificates take.
extern const confine::Reach kNetworkReach;

}  // namespace weir::control
