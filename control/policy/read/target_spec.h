#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/policy/model/target.h"
#include "control/policy/read/policy_file.h"

namespace weir::control {

// As `--target` has it: a socket, or xdp:eth0,eth1.
Result<TargetSpec> target_of(std::string_view text);
// Several of them. Errors begin with the one that is wrong.
Result<std::vector<TargetSpec>> targets_of(std::span<const std::string> texts);

// The sequence `targets` of a policy. Errors go to the file's diagnostics, and what has one is left out.
std::vector<TargetSpec> read_targets(const PolicyFile& file, const yaml::Node& sequence);

}  // namespace weir::control
