#pragma once

#include <cstddef>
#include <cstdint>

#include "common/result.h"

// The system calls that a running data plane makes, and no others, for every thread (seccomp(2)).
namespace weir::dataplane {

// What meets a call that is not on the list: it fails with EPERM; the process ends with SIGSYS; it is only logged;
// nothing.
enum class Seccomp : uint8_t { refuse, kill, log, off };

// Sets no_new_privs too. How many calls are on the list; with `off` 0 and nothing changes.
Result<size_t> filter_system_calls(Seccomp mode);

}  // namespace weir::dataplane
