#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/burst/sample.h"

namespace weir::dataplane {

// Wall-clock time of a tick, reckoned back from now: right to the rate of the processor's clock over the time that a
// sample waits.
class SampleClock {
 public:
  SampleClock(uint64_t now_ticks, uint64_t ticks_per_second);
  uint64_t unix_ns(uint64_t ticks) const;

 private:
  uint64_t now_ticks_, ticks_per_second_, now_unix_ns_;
};

// Moves samples from the ring behind `body`, oldest first, as long as it stays within limit_bytes. Returns how many.
uint32_t append_samples(Sampler& sampler, const SampleClock& clock, size_t limit_bytes, std::vector<std::byte>& body);

}  // namespace weir::dataplane
