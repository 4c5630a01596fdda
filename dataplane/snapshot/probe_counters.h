#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "common/counter.h"
#include "common/key_window.h"
#include "common/probes.h"
#include "filter/probe/lookup.h"
#include "filter/read/view.h"

namespace weir::dataplane {

// What one worker asks of the filter of one shape: counts, and a sample of the keys on their way to the control thread,
// which takes them out once a second or so. A sample is some keys of a batch that stand together,
// not always at the same place in it, whatever became of them.
class alignas(64) ProbeCounter {
 public:
  // Worker: a batch whose lookup is done.
  void count(const filter::Batch& batch) noexcept {
    if (batch.bypass) return;  // it was not asked of the filter
    asked_.add(batch.n);
    let_through_.add(static_cast<uint64_t>(std::popcount(batch.let_through)));
    found_.add(static_cast<uint64_t>(std::popcount(batch.found)));
    const uint64_t pushed = pushed_.load(std::memory_order_relaxed);
    if (pushed - popped_.load(std::memory_order_acquire) != kSlots) [[unlikely]]
      sample(batch, pushed);
  }

  // Control thread.
  void add_to(wire::ShapeProbes& probes) const noexcept {
    probes.asked += asked_.get();
    probes.let_through += let_through_.get();
    probes.found += found_.get();
  }
  void take_out(KeyWindow& window);

 private:
  static constexpr uint64_t kSlots = 64;
  static constexpr unsigned kKeys = 8;  // of a batch: a line

  void sample(const filter::Batch& batch, uint64_t pushed) noexcept;

  Counter asked_, let_through_, found_;
  std::atomic<uint64_t> pushed_ = 0;
  alignas(64) std::atomic<uint64_t> popped_ = 0;
  // By slot: keys that the filter let through, and above them those that were found; those that there are, above these.
  uint32_t outcome_[kSlots] = {};
  alignas(64) uint64_t place_[kSlots][kKeys] = {};
};

// The same of all workers and shapes of one snapshot, a base or an overlay.
class ProbeCounters {
 public:
  ProbeCounters(const filter::SnapshotView& view, size_t workers);

  // Of a shape of the view, or of a copy of it. Null: a bitmap, which is never wrong.
  ProbeCounter* of(size_t worker, size_t shape) noexcept {
    return numbers_[shape] < 0 ? nullptr : &counters_[worker * windows_.size() + static_cast<size_t>(numbers_[shape])];
  }

  // Control thread, the one that takes samples out. now_s: of a clock that never goes back.
  void tell(bool of_overlay, uint64_t now_s, std::vector<wire::ShapeProbes>& told);

 private:
  std::vector<int> numbers_;            // by shape: among those that are counted; -1: it is not
  std::vector<ProbeCounter> counters_;  // of the first worker, of the second, ...
  std::vector<KeyWindow> windows_;      // of all workers
};

}  // namespace weir::dataplane
