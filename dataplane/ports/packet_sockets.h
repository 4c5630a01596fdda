#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/fd.h"

namespace weir::dataplane {

// The packet sockets (packet(7)) through which net_af_packet receives from an interface. The kernel drops a frame that
// finds a socket's ring full, and tells the socket alone; the driver of DPDK asks for that since 24.07. The kernel
// forgets what it has told, so each frame is told once, to this class or to the driver: the sum of both is right.
class PacketSockets {
 public:
  // Takes those that this process has open now; their earlier drops do not count. None where /proc is not there.
  explicit PacketSockets(unsigned interface);

  // Frames dropped since then. Any thread may ask.
  uint64_t dropped() const;

 private:
  std::vector<Fd> sockets_;  // duplicates: the driver closes its own
  mutable std::atomic<uint64_t> dropped_ = 0;
};

}  // namespace weir::dataplane
