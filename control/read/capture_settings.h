#pragma once

#include "common/yaml/yaml.h"
#include "control/model/capture.h"

namespace weir::control {

// section: a map. Its filter is not compiled yet, since that may ask the system for names.
CaptureSettings read_capture_settings(const yaml::Document& document, const yaml::Node& section,
                                      Diagnostics& diagnostics);

// Compiles the filter of the section; an error of libpcap becomes a diagnostic.
void check_capture_filter(const yaml::Document& document, const yaml::Node& section, const CaptureSettings& settings,
                          Diagnostics& diagnostics);

}  // namespace weir::control
