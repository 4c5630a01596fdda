#pragma once

#include <vector>

#include "dataplane/burst/burst.h"
#include "dataplane/ports/mbuf_pools.h"
#include "filter/probe/lookup.h"

namespace weir::dataplane {

// The bursts between parse and verdict. A burst's lookups wait for memory, so under load a few bursts are under way at
// once, and the lookups of one fill the time in which those of another wait (filter/probe/lookup.h). They leave in the
// order in which they came.
//
// A burst in flight refers to its snapshot: no quiescent state may be reported before all are out.
class Flight {
 public:
  // look_ahead: bursts between asking for a filter's lines and testing them (filter/probe/calibrate.h); 0: none.
  Flight(const filter::Kernels& kernels, unsigned look_ahead);

  // Where the next burst is received. The caller pops what is finished after every push, and drains when full.
  Burst& next() noexcept { return *free_bursts_.back(); }
  bool full() const noexcept { return pushed_ - popped_ >= kBursts - kMaxParts; }
  bool empty() const noexcept { return pushed_ == popped_; }

  // probe: takes next(), parsed, and starts its lookups.
  void push(const WorkerSnapshot& snapshot, const Route& route) noexcept;
  // The frames that found no slot in the burst just pushed, as next(); null when there are none. They are judged before
  // others are received, and nothing is popped in between.
  Burst* carry_over(const Burst& pushed) noexcept;
  // exact, done: the oldest burst when all its lookups are; null otherwise. It is next() again from then on.
  Burst* pop() noexcept;
  // Finishes every lookup; pop() then gives all bursts.
  void drain() noexcept;

 private:
  // Lookups wait for at most so many others behind them (LookupPipeline), and every burst may have just one.
  static constexpr uint32_t kBursts = filter::LookupPipeline::kMaxInFlight;

  static_assert(kBursts * kMaxBurst <= kMostFramesHeld);
  // Bursts that what is received at once can become: each has room for 16 frames with all their layers.
  static constexpr uint32_t kMaxParts = WEIR_MAX_LAYERS;
  static constexpr uint32_t kBatches = filter::LookupPipeline::kMaxInFlight;

  void collect() noexcept;

  unsigned look_ahead_;  // in bursts; the pipeline counts in batches
  filter::LookupPipeline pipeline_;
  std::vector<Burst> bursts_;
  std::vector<KeyBatch> batches_;
  // Those not in flight, the one used last on top: it is in the cache still.
  std::vector<Burst*> free_bursts_;
  std::vector<KeyBatch*> free_batches_;
  Burst* in_flight_[kBursts] = {};    // in their order
  uint64_t pushed_ = 0, popped_ = 0;  // bursts
};

}  // namespace weir::dataplane
