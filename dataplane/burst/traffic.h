#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "dataplane/burst/one_in.h"
#include "dataplane/burst/stages.h"
#include "dataplane/snapshot/ring.h"

namespace weir::dataplane {

using TrafficRing = Ring<wire::SampledTraffic, 2048>;  // time_unix_ns holds ticks until it is told

// Samples of all frames that a snapshot judges, passed or dropped, for `controlctl plan` (docs/operate/plan.md): the
// packets of one in N, with N as weight. When the ring fills up before anybody asks, N grows: none is lost unless
// nobody asks for long, and every frame stands in some sample's weight.
//
// One worker calls sample(), one control thread all else. sample() neither allocates, locks, logs nor calls the system;
// it reads the processor's cycle counter, of chosen frames only.
class TrafficSampler {
 public:
  // From now on one in so many; 0: none.
  void set(uint32_t one_in) noexcept {
    wishes_++;
    wish_.store(uint64_t{wishes_} << 32 | one_in, std::memory_order_relaxed);
  }
  TrafficRing& ring() noexcept { return ring_; }
  uint64_t sampled() const noexcept { return sampled_.get(); }
  uint64_t lost() const noexcept { return lost_.get(); }

  // After the verdict, before frames leave. frames: slots of the burst.
  void sample(Burst& burst, uint64_t frames) noexcept {
    const uint64_t wish = wish_.load(std::memory_order_relaxed);
    if (wish == seen_ && chosen_.has_none_in(static_cast<uint32_t>(std::popcount(frames)))) return;
    if (static_cast<uint32_t>(wish) != 0) choose(wish, burst, frames);
  }

 private:
  void choose(uint64_t wish, Burst& burst, uint64_t frames) noexcept;
  void take(Burst& burst, uint32_t slot) noexcept;
  uint32_t run_now() const noexcept;

  TrafficRing ring_;
  std::atomic<uint64_t> wish_ = 0;  // one in so many, below the number of the wish
  Counter sampled_, lost_;
  uint32_t wishes_ = 0;  // the control thread's

  // The worker's.
  uint64_t seen_ = 0;
  OneIn chosen_;
};

}  // namespace weir::dataplane
