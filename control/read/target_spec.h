#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/model/target.h"
#include "control/read/policy_file.h"

namespace weir::control {

// As `--target` has it: a socket, or xdp:eth0,eth1.
Result<TargetSpec> target_of(std::string_view text);

// The sequence `targets` of a policy. Errors go to the file's diagnostics, and what has one is left out.
std::vector<TargetSpec> read_targets(const PolicyFile& file, const yaml::Node& sequence);
// The same of a policy that may be wrong anywhere: what cannot be understood is left out without a word.
std::vector<TargetSpec> find_targets(const yaml::Node& sequence);

}  // namespace weir::control
