#pragma once

#include <cstdint>
#include <string>

namespace weir::control {

// The section `capture` of a policy (docs/operate/capture.md).
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

}  // namespace weir::control
