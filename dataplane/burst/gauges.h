#pragma once

#include <rte_cycles.h>

#include <atomic>
#include <cstdint>

#include "common/telemetry.h"
#include "dataplane/burst/burst.h"
#include "dataplane/burst/counters.h"

// What a worker measures of itself. A pass is one look at all its queues. All cycles are of the TSC.
namespace weir::dataplane {

// How long the worker has been busy: from the begin of a pass that found frames to the end of the first that found
// none. Written at these borders only, so a worker that is never idle never looks at the clock for it.
class BusyTime {
 public:
  struct Reading {
    uint64_t total_cycles, busy_cycles;
  };

  void begin(uint64_t now) noexcept {
    phase_.store(now << 1, std::memory_order_relaxed);
    begun_.store(now, std::memory_order_release);
  }
  void change(bool busy, uint64_t now) noexcept {
    const uint64_t phase = phase_.load(std::memory_order_relaxed);
    phase_.store(kChanging, std::memory_order_relaxed);
    const uint64_t more = (phase & 1) != 0 ? now - (phase >> 1) : 0;
    busy_cycles_.store(busy_cycles_.load(std::memory_order_relaxed) + more, std::memory_order_release);
    phase_.store(now << 1 | (busy ? 1 : 0), std::memory_order_release);
  }
  // The phase that lasts is counted up to `now`.
  Reading read(uint64_t now) const noexcept;

 private:
  static constexpr uint64_t kChanging = 0;
  std::atomic<uint64_t> begun_ = 0;  // 0: not yet
  std::atomic<uint64_t> busy_cycles_ = 0;
  std::atomic<uint64_t> phase_ = 0;  // begin of the phase that lasts << 1 | whether it is busy
};

struct alignas(64) WorkerGauges {
  BusyTime time;
  Counter passes;  // of its loop, and looks for the first snapshot: it goes on (serve/heartbeat.h)
  Counter rests;
  Counter burst_sizes[wire::kBurstSizes];
  Counter stage_cycles[wire::kStages];
  Counter stage_packets[wire::kStages];
  Histogram pass_cycles;
  Histogram latency_cycles;
  std::atomic<wire::Rest> rest = wire::Rest::poll;

  void add_to(wire::Telemetry& telemetry, uint64_t now) const;
};
static_assert(wire::kBurstSizes == kMaxBurst + 1);

// Which passes are timed: one in N on the average. The gaps vary, so that nothing that comes back regularly is always,
// or never, in a timed pass.
class TimedPasses {
 public:
  // 0: none.
  explicit TimedPasses(uint32_t one_in) noexcept : one_in_(one_in), left_(one_in == 0 ? UINT64_MAX : 0) {}
  bool due() const noexcept { return left_ == 0; }
  void next() noexcept { left_ = left_ == 0 ? gap() : left_ - 1; }

 private:
  uint64_t gap() noexcept {  // 0..2N-2; xorshift64, Marsaglia 2003
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ % (2 * uint64_t{one_in_} - 1);
  }

  uint32_t one_in_;
  uint64_t left_;
  uint64_t random_ = 0x9e3779b97f4a7c15;
};

// The stages of one pass, timed; or not: then nothing of it is left in the code.
class StageWatch {
 public:
  explicit StageWatch(uint64_t now) noexcept : last_(now) {}
  // The time since the last lap went into this stage, for so many frames.
  void lap(wire::Stage stage, uint32_t frames) noexcept {
    const uint64_t now = rte_rdtsc();
    cycles_[static_cast<uint32_t>(stage)] += now - last_;
    packets_[static_cast<uint32_t>(stage)] += frames;
    last_ = now;
  }
  // The time since the last lap went into none.
  void leave_out() noexcept { last_ = rte_rdtsc(); }
  uint64_t last() const noexcept { return last_; }
  void add_to(WorkerGauges& gauges) const noexcept {
    for (uint32_t i = 0; i < wire::kStages; i++) {
      gauges.stage_cycles[i].add(cycles_[i]);
      gauges.stage_packets[i].add(packets_[i]);
    }
  }

 private:
  uint64_t last_;
  uint64_t cycles_[wire::kStages] = {};
  uint64_t packets_[wire::kStages] = {};
};

struct NoWatch {
  void lap(wire::Stage, uint32_t) const noexcept {}
  void leave_out() const noexcept {}
  uint64_t last() const noexcept { return 0; }
};

}  // namespace weir::dataplane
