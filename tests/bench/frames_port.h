#pragma once

#include <cstdint>

// The counters of a port of frames_port.cpp. They are a file that the port maps, so a script reads them while the
// program runs. Ticks are of the TSC, of one call in kTimedOneIn.
namespace weir::bench {

constexpr uint32_t kTimedOneIn = 8;

struct FramesPortCounters {
  uint64_t received, sent;  // frames that the port gave, and that it took
  uint64_t no_mbufs;        // calls for which the pool had too few
  uint64_t receive_timed, receive_ticks;
  uint64_t send_timed, send_ticks;
  uint64_t tsc_hz;
};

}  // namespace weir::bench
