#pragma once

#include <cstddef>
#include <vector>

#include "common/result.h"
#include "filter/probe/dispatch.h"

// What a lookup costs on this machine, measured with the LookupPipeline that the data plane uses: 16-byte keys that are
// not in a line8 filter, 4096 random bytes repeated, in huge pages where there are some.
//
// A number is the fastest of several short runs (about 50 us), the look-aheads taking turns: what other programs do to
// the caches and the clock only ever adds, and hits all of them alike. So it is what the machine can do, not what it
// does under load. Nothing here is allocated but the filter: 64 MiB of scratch memory, given back before the return.
namespace weir::filter {

struct CalibrationPoint {
  size_t filter_bytes = 0;
  double sync_ns = 0;       // a key, hash included, look-ahead 0
  double pipelined_ns = 0;  // a key, with the look-ahead below
  unsigned look_ahead = 0;  // the smallest within 3 % of the best for this size
};

struct Calibration {
  std::vector<CalibrationPoint> points;  // ascending: within L2, within most L3s, between, 64 MiB
  unsigned look_ahead = 0;               // the smallest within 3 % of the best for the largest size
  bool huge_pages = false;               // false: the kernel may still have given transparent ones

  // Pipelined and synchronous ns a key for a filter of this size, interpolated over the logarithm of the size; past
  // either end the value there. Filters far larger than 64 MiB cost more: half as much again at 600 MiB.
  double ns_for(size_t filter_bytes) const;
  double sync_ns_for(size_t filter_bytes) const;
};

// All sizes: 0.2 to 0.3 s. Error: no memory to measure with.
Result<Calibration> calibrate(const Kernels& kernels);

}  // namespace weir::filter
