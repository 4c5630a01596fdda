#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"

namespace weir::control {

// One frame of a capture file.
struct CapturedFrame {
  std::vector<uint8_t> bytes;  // as many as were captured
  uint32_t frame_bytes = 0;    // that it had
};

// path: pcap or pcapng, of Ethernet; -: stdin. number: from 1, as Wireshark and tcpdump -# count. Error: the file, what
// is wrong, then the way out.
Result<CapturedFrame> read_captured_frame(const std::string& path, uint64_t number);

}  // namespace weir::control
