#pragma once

#include <cstddef>

#include "common/confine/system_calls.h"

namespace weir::dataplane {

// From now on the system calls that a running data plane makes, and no others, for every thread. How many are on the
// list; with `off` 0 and nothing changes.
Result<size_t> filter_system_calls(confine::Seccomp mode);

}  // namespace weir::dataplane
