#pragma once

#include <cstdint>
#include <string>

#include "common/yaml/yaml.h"

namespace weir::control {

// The section `capture` of a policy (docs/capture.md).
struct CaptureSettings {
  std::string folder;  // empty: `capture` in the state directory
  uint32_t one_in = 1000;
  uint32_t per_list_per_second = 10;
  uint32_t snap_bytes = 256;
  std::string filter;  // pcap-filter(7); empty: every frame
  uint64_t file_bytes = uint64_t{64} << 20;
  uint64_t file_age_s = 3600;
  uint32_t files = 16;
  bool operator==(const CaptureSettings&) const = default;
};

// section: a map. Its filter is not compiled yet, since that may ask the system for names.
CaptureSettings read_capture_settings(const yaml::Document& document, const yaml::Node& section,
                                      Diagnostics& diagnostics);

// Compiles the filter of the section; an error of libpcap becomes a diagnostic.
void check_capture_filter(const yaml::Document& document, const yaml::Node& section, const CaptureSettings& settings,
                          Diagnostics& diagnostics);

}  // namespace weir::control
