#pragma once

#include <string>

#include "common/yaml/yaml.h"
#include "control/policy/model/policy.h"

namespace weir::control {

// `fleet`; errors go to the reader's diagnostics. Relative paths begin at the folder of the file that it stands in.
FleetSettings read_fleet_settings(const std::string& policy_path, yaml::MapReader reader);

}  // namespace weir::control
