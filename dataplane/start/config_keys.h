#pragma once

#include "common/yaml/keys.h"

// The keys of dataplane.yaml, a row each.
namespace weir::dataplane {

extern const yaml::Section kConfigSection;

}  // namespace weir::dataplane
