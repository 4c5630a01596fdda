#pragma once

#include <string>
#include <vector>

#include "control/read/target_spec.h"

namespace weir::control {

struct Places {
  std::string state_dir;
  std::vector<TargetSpec> targets;
};

// Where the state directory and the targets are, read from a policy that may be wrong everywhere else: so that a
// controld that starts on a bad policy still finds its last good and whom to give it to. What is not there, or cannot
// be read, is the default. Judges nothing: that is read_policy's part.
Places find_places(const std::string& config);

}  // namespace weir::control
