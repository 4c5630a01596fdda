#pragma once

#include "common/yaml/keys.h"

// The keys of steer.yaml, a row each.
namespace weir::control {

extern const yaml::Section kSteerSection;
extern const yaml::Section kSteerRuleSection;  // one of its rules

}  // namespace weir::control
