#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/reference/classifier.h"

// The meaning of a frame (docs/operate/dataplane.md), slow and plainly: the frame is read front to back through a
// cursor that refuses to read past its end. Shares no code with dataplane/ or filter/.
namespace weir::reference {

enum class FrameKind : uint8_t { not_ip, malformed, ip };

struct Frame {
  FrameKind kind = FrameKind::not_ip;  // of the outer layer
  bool incomplete = false;             // some layer's IPv6 extension header chain is cut off, or longer than 16
  std::vector<PacketKeys> layers;      // of kind ip: the outer one and those in its tunnels, outer first, at most 4
};

// frame: Ethernet II without FCS, as captured. tunnels: mask of weir_tunnel, those that are looked into.
Frame parse_frame(std::span<const uint8_t> frame, uint8_t tunnels = 0);

}  // namespace weir::reference
