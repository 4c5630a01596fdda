#pragma once

#include "common/yaml/keys.h"
#include "control/policy/feeds/format.h"

// The keys of weir.yaml, a row each. Those of an entry are made of the table of fields (control/policy/model/fields.h),
// those of `format` of the table of formats.
namespace weir::control {

const yaml::Section& policy_section();
const yaml::Section& target_section();
const yaml::Section& entry_section();                              // an entry that is a map
const yaml::Section& format_section(const feeds::Format& format);  // its settings

}  // namespace weir::control
