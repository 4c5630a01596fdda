#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/result.h"

// Capabilities (capabilities(7)) belong to threads: no system call takes one from a whole process. EAL's threads run
// before ours, so each thread is asked by a signal to give its own up, as glibc does for setuid().
namespace weir::confine {

using Capabilities = uint64_t;  // bit N: capability number N

constexpr Capabilities capability(int number) {
  return Capabilities{1} << number;
}

// What this thread may use (permitted).
Capabilities own_capabilities();
// "net_admin, net_raw"; "none" when empty.
std::string names_of(Capabilities capabilities);
// 0 when there is no such capability. name: as in capabilities(7) without CAP_, lower case.
Capabilities capability_named(const std::string& name);

// In every thread: executing a program gains nothing (no_new_privs; the bounding set is emptied, where CAP_SETPCAP lets
// us), and the next change of user does not take what is permitted.
Result<void> forbid_gaining();
// Whether work() is true in a thread that has none.
Result<bool> works_without(const std::function<bool()>& work);

// In every thread: only those of `kept` stay that it has, in the permitted and effective sets.
Result<void> keep_only(Capabilities kept);

}  // namespace weir::confine
