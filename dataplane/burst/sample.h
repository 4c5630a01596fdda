#pragma once

#include <atomic>
#include <cstdint>

#include "dataplane/burst/one_in.h"
#include "dataplane/burst/stages.h"
#include "dataplane/snapshot/ring.h"

namespace weir::dataplane {

uint64_t tsc_ticks() noexcept;

struct SampleSlot {
  wire::Sample sample;  // time_unix_ns holds ticks until it is told
  uint8_t bytes[wire::kMaxSnapBytes];
};
using SampleRing = Ring<SampleSlot, 1024>;  // 680 bytes each

// The packet as samples have it: struct weir_packet, with 0 where it has nothing. Writes wire::kPacketBytes.
void copy_packet(const Headers& headers, std::byte* packet) noexcept;

// Copies one in N of the frames that a worker drops into its ring (docs/operate/capture.md).
//
// One worker calls sample(), one control thread all else. sample() neither allocates, locks, logs nor calls the system;
// it reads the processor's cycle counter, of chosen frames only.
class Sampler {
 public:
  explicit Sampler(uint64_t (*ticks)() = tsc_ticks) noexcept : ticks_(ticks) {}

  // ticks_per_second: for per_list_per_second, which is a limit for each worker.
  void set(const wire::SamplingBody& wanted, uint64_t ticks_per_second) noexcept;
  SampleRing& ring() noexcept { return ring_; }
  uint64_t sampled() const noexcept { return sampled_.get(); }
  uint64_t limited() const noexcept { return limited_.get(); }
  uint64_t lost() const noexcept { return lost_.get(); }

  // After the verdict, before frames leave. dropped: those of the burst's that came from `in`.
  void sample(Burst& burst, uint64_t dropped, PortQueue in) noexcept {
    const uint32_t one_in = one_in_.load(std::memory_order_relaxed);
    if (one_in != 0 && dropped != 0) choose(one_in, burst, dropped, in);
  }

 private:
  // Lists, and the reasons that are no list.
  static constexpr uint32_t kCredits = WEIR_MAX_LISTS + 3;

  void choose(uint32_t one_in, Burst& burst, uint64_t dropped, PortQueue in) noexcept;
  void take(Burst& burst, uint32_t i, PortQueue in) noexcept;
  bool within_limit(const DropCredit& credit, uint64_t ticks) noexcept;

  uint64_t (*ticks_)();
  SampleRing ring_;
  std::atomic<uint32_t> one_in_ = 0, snap_bytes_ = 0, per_list_per_second_ = 0;
  std::atomic<uint64_t> ticks_per_second_ = 1;
  Counter sampled_, limited_, lost_;

  // The worker's.
  OneIn dropped_;
  struct Second {
    uint64_t number = 0;
    uint32_t samples = 0;
  };
  Second second_of_[kCredits];
};

}  // namespace weir::dataplane
