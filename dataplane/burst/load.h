#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "common/counter.h"
#include "common/telemetry.h"
#include "dataplane/burst/heavy_sources.h"
#include "dataplane/ports/port_plan.h"

struct rte_mbuf;

namespace weir::dataplane {

// Where the frames of one worker come from: which of its queues gives how many, and which sources send most of them
// (docs/operate/telemetry.md, "Uneven load"). Sources are those of the outermost packet: an IPv4 address, or the /64 of
// an IPv6 one. Of the frames of timed passes one in kOneIn is looked at, at gaps that vary.
//
// One worker calls received(), note() and settle(); others may read meanwhile.
class WorkerLoad {
 public:
  static constexpr uint32_t kOneIn = 8;
  static constexpr uint32_t kHalfLifeSeconds = 4;  // of what was sampled

  // Before the worker runs.
  void prepare(size_t n_queues, uint64_t tsc_hz);

  // queue: its place among the worker's routes. n: frames that it gave at once.
  void received(size_t queue, uint32_t n) noexcept { queues_[queue / kInLine].packets[queue % kInLine].add(n); }
  // These frames of a timed pass, by slot, before they leave. It only takes down the sources of some, so that the pass
  // is hardly longer; settle() counts them, when the pass has been timed.
  void note(rte_mbuf* const* packets, uint64_t frames) noexcept {
    for (; frames != 0; frames &= frames - 1) {
      if (next_-- != 0) continue;
      note(*packets[std::countr_zero(frames)]);
      next_ = gap();
    }
  }
  // now: the TSC.
  void settle(uint64_t now) noexcept;

  // routes: the worker's.
  void add_to(wire::Telemetry& telemetry, std::span<const Route> routes) const;

 private:
  static constexpr uint32_t kMostNoted = 64;
  struct Noted {
    uint64_t address;
    uint8_t family;  // 0: none
  };

  void note(const rte_mbuf& frame) noexcept;
  void count_noted() noexcept;
  uint32_t gap() noexcept {  // 0..2N-2; xorshift64, Marsaglia 2003
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<uint32_t>(random_ % (2 * kOneIn - 1));
  }

  static constexpr size_t kInLine = 8;
  struct alignas(64) Line {  // so that no two workers write to one
    Counter packets[kInLine];
  };
  std::vector<Line> queues_;
  HeavySources v4_, v6_;
  std::atomic<uint64_t> sampled_ = 0;

  // The worker's.
  uint32_t next_ = 0;  // frames before the next one that is looked at
  uint32_t n_noted_ = 0;
  Noted noted_[kMostNoted];
  uint64_t half_life_cycles_ = UINT64_MAX;
  uint64_t halved_cycles_ = 0;  // when weights were halved last; 0: never
  uint64_t random_ = 0x9e3779b97f4a7c15;
};

}  // namespace weir::dataplane
