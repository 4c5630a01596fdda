#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/burst/sample.h"
#include "dataplane/burst/traffic.h"

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
uint32_t append_traffic(TrafficSampler& sampler, const SampleClock& clock, size_t limit_bytes,
                        std::vector<std::byte>& body);

// Of how many frames one is a sample, so that there are about so many samples a second: from the frames of the tenth of
// a second, or longer, before it is asked. One thread.
class TrafficPace {
 public:
  // frames: so far; at_ticks: now. 0: none are wanted.
  uint32_t one_in(uint32_t per_second, uint64_t frames, uint64_t at_ticks, uint64_t ticks_per_second) noexcept;

 private:
  uint64_t frames_ = 0, at_ticks_ = 0;  // when the rate was taken last; 0: never
  double frames_per_second_ = 0;
};

}  // namespace weir::dataplane
