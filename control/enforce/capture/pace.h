#pragma once

#include <cstdint>

namespace weir::control {

// One in how many dropped frames is a sample, for somebody who looks on and named no share: all of them while few are
// dropped, and under a flood as many as people and programs can take. Begins as if there were a flood, because workers
// pay for samples.
class Pace {
 public:
  static constexpr uint32_t kWantedPerSecond = 500;

  uint32_t one_in() const { return one_in_; }
  // So many samples came in so many seconds.
  void take(uint64_t samples, double seconds);

 private:
  static constexpr uint32_t kFirst = 1024;
  static constexpr uint32_t kMost = 1'000'000;
  uint32_t one_in_ = kFirst;
};

}  // namespace weir::control
