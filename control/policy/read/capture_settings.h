#pragma once

#include "common/yaml/yaml.h"
#include "control/policy/model/capture.h"
#include "control/policy/read/policy_file.h"

namespace weir::control {

// section: of the policy of that path. Its filter is not compiled yet, since that may ask the system for names.
CaptureSettings read_capture_settings(const std::string& policy_path, yaml::MapReader section);

// Compiles the filter, which stands there; an error of libpcap becomes a diagnostic. filter: null: there is none.
void check_capture_filter(const PolicyFile& file, const yaml::Node* filter);

}  // namespace weir::control
