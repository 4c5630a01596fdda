#include "dataplane/burst/flight.h"

#include <cassert>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

Flight::Flight(const filter::Kernels& kernels, unsigned look_ahead)
    : look_ahead_(look_ahead), pipeline_(kernels, look_ahead), bursts_(kBursts), batches_(kBatches) {
  for (Burst& burst : bursts_) free_bursts_.push_back(&burst);
  for (KeyBatch& batch : batches_) free_batches_.push_back(&batch);
}

void Flight::push(const WorkerSnapshot& snapshot, const Route& route) noexcept {
  Burst& burst = next();
  free_bursts_.pop_back();
  in_flight_[pushed_++ % kBursts] = &burst;
  burst.snapshot = &snapshot;
  burst.route = &route;
  burst.waiting = burst.batches = 0;
  for (size_t i = 0; i < snapshot.lookups.size(); i++) {
    KeyBatch& batch = *free_batches_.back();
    keys(snapshot.lookups[i], burst, batch);
    if (batch.n == 0) continue;
    batch.lane = &snapshot.lanes[i];
    free_batches_.pop_back();
    burst.waiting++;
    burst.batches++;
    pipeline_.push(&batch);
    collect();
  }
  // A lookup is tested when the same lookup of a later burst is hashed: then the frames of that burst have been
  // received and parsed in between. The next burst has as many batches, mostly.
  if (burst.batches != 0) pipeline_.look_ahead(look_ahead_ * burst.batches);
}

Burst* Flight::carry_over(const Burst& pushed) noexcept {
  if (pushed.n_carried == 0) return nullptr;
  assert(!free_bursts_.empty());
  Burst& rest = next();
  rest.n = pushed.n_carried;
  rest.bytes = 0;
  rest.now_unix_s = pushed.now_unix_s;
  for (uint32_t i = 0; i < rest.n; i++) {
    rest.pkt[i] = pushed.pkt[pushed.n + i];
    rest.bytes += rest.pkt[i]->pkt_len;
  }
  return &rest;
}

Burst* Flight::pop() noexcept {
  if (empty() || in_flight_[popped_ % kBursts]->waiting != 0) return nullptr;
  Burst* done = in_flight_[popped_++ % kBursts];
  free_bursts_.push_back(done);  // no allocation: there was room for all
  return done;
}

void Flight::drain() noexcept {
  pipeline_.drain();
  collect();
}

void Flight::collect() noexcept {
  while (filter::Batch* done = pipeline_.pop()) {
    auto* batch = static_cast<KeyBatch*>(done);
    exact(*batch);
    free_batches_.push_back(batch);
  }
}

}  // namespace weir::dataplane
