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

  // Where the next burst is received. The caller pops what is finished after every burst, and drains when full.
  Burst& next() noexcept { return *free_bursts_.back(); }
  bool full() const noexcept { return pushed_ - popped_ >= kBursts - kMaxParts; }
  bool empty() const noexcept { return pushed_ == popped_; }

  // probe: next(), parsed, is in flight from here on. Then, for each of its lookups, next_batch() gets the keys, and
  // probe() starts the lookup of those; what probed() gives in between is finished, of this burst or one before it, and
  // is for match() at once: it is next_batch() again from then on. probing_done() after the last one.
  Burst& take(const WorkerSnapshot& snapshot, const Route& route) noexcept;
  KeyBatch& next_batch() noexcept { return *free_batches_.back(); }
  void probe(KeyBatch& batch, filter::Lane& lane) noexcept;
  KeyBatch* probed() noexcept;
  void probing_done(const Burst& burst) noexcept;
  // The frames that found no slot in the burst just taken, as next(); null when there are none. They are judged before
  // others are received, and nothing is popped in between.
  Burst* carry_over(const Burst& taken) noexcept;
  // The oldest burst when all its lookups are; null otherwise. It is next() again from then on.
  Burst* pop() noexcept;
  // Finishes and matches every lookup; pop() then gives all bursts.
  void drain() noexcept;

 private:
  // Lookups wait for at most so many others behind them (LookupPipeline), and every burst may have just one.
  static constexpr uint32_t kBursts = filter::LookupPipeline::kMaxInFlight;

  static_assert(kBursts * kMaxBurst <= kMostFramesHeld);
  // Bursts that what is received at once can become: each has room for 16 frames with all their layers.
  static constexpr uint32_t kMaxParts = WEIR_MAX_LAYERS;
  static constexpr uint32_t kBatches = filter::LookupPipeline::kMaxInFlight;

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

inline Burst& Flight::take(const WorkerSnapshot& snapshot, const Route& route) noexcept {
  Burst& burst = next();
  free_bursts_.pop_back();
  in_flight_[pushed_++ % kBursts] = &burst;
  burst.snapshot = &snapshot;
  burst.route = &route;
  burst.waiting = burst.batches = 0;
  return burst;
}

inline void Flight::probe(KeyBatch& batch, filter::Lane& lane) noexcept {
  free_batches_.pop_back();
  batch.lane = &lane;
  batch.burst->waiting++;
  batch.burst->batches++;
  pipeline_.push(&batch);
}

inline KeyBatch* Flight::probed() noexcept {
  auto* batch = static_cast<KeyBatch*>(pipeline_.pop());
  if (batch != nullptr) free_batches_.push_back(batch);  // no allocation: there was room for all
  return batch;
}

// A lookup is tested when the same lookup of a later burst is hashed: then the frames of that burst have been received
// and parsed in between. The next burst has as many batches, mostly.
inline void Flight::probing_done(const Burst& burst) noexcept {
  if (burst.batches != 0) pipeline_.look_ahead(look_ahead_ * burst.batches);
}

}  // namespace weir::dataplane
