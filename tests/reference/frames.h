#pragma once

#include <cstdint>
#include <span>

#include "tests/reference/classifier.h"

// What a frame means (DESIGN section 4), slow and plainly: the frame is read front to back through a cursor that
// refuses to read past its end. Shares no code with dataplane/ or filter/.
namespace weir::reference {

enum class FrameKind : uint8_t { not_ip, malformed, ip };

struct Frame {
  FrameKind kind = FrameKind::not_ip;
  bool incomplete = false;  // an IPv6 extension header chain that is cut off, or longer than 16
  uint8_t protocol = 0;
  PacketKeys keys;  // of kind ip
};

// frame: Ethernet II without FCS, as captured.
Frame parse_frame(std::span<const uint8_t> frame);

}  // namespace weir::reference
