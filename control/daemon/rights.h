#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>

#include "common/confine/system_calls.h"
#include "common/result.h"
#include "control/policy/model/target.h"

// What controld may do, and who may ask it. docs/operate/security.md
namespace weir::control {

enum class Network { none, serves };  // none: no socket of TCP can be made

// From now on: the capabilities that such targets need, and the system calls that controld makes. For every thread; no
// feed was read yet. Root who needs a capability to read the policy, in the home of another user, keeps that one. What
// is left, for the log.
Result<std::string> reduce_rights(const std::string& config, std::span<const TargetSpec> targets, confine::Seccomp mode,
                                  Network network = Network::none);

// The group of that name, whose members may ask. name: "none"; empty: the usual one, where there is such a group and we
// may let it in. Root joins it, so that its socket can be the group's. kReadGroup, kAdminGroup (common/paths.h).
Result<std::optional<gid_t>> find_group(const std::string& name, const char* usual);

}  // namespace weir::control
