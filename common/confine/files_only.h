#pragma once

#include <span>

#include "common/result.h"

namespace weir::confine {

// From now on this thread, and those that it makes, may read these files and what is in these folders, and reach no
// other file (Landlock, landlock(7)). What is not there is left out. no_new_privs has to be set. Error: the kernel
// has no Landlock.
Result<void> read_only_these(std::span<const char* const> paths);

}  // namespace weir::confine
