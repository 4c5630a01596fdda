#pragma once

#include <string>
#include <vector>

#include "common/diagnostic.h"
#include "common/result.h"
#include "control/policy/model/policy.h"
#include "control/sources/fleet/desk.h"

// What a fleet's policy consists of, on the machine that pushes it.
namespace weir::control::ctl {

struct PolicyFiles {
  std::string policy;  // the path of the policy among the files
  std::vector<fleet::PushedFile> files;
};

// The policy file and all feeds that it names. They lie in the folder of the policy, or in one below it: nodes find
// them by the same paths. Error: one does not, or cannot be read.
Result<PolicyFiles> policy_files(const std::string& path, const Policy& policy);

// The list that entries are meant for; `name` empty: the one that is dynamic. Error: there is none, or it takes none.
Result<std::string> dynamic_list(const Policy& policy, const std::string& name);

// The lines that one of two texts has and the other has not, in their order, with `-` and `+` before them; those that
// both have are left out.
std::string line_difference(const std::string& before, const std::string& after, size_t most_lines);

}  // namespace weir::control::ctl
