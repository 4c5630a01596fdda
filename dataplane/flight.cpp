#include "dataplane/flight.h"

#include "dataplane/stages.h"

namespace weir::dataplane {

Flight::Flight(const filter::Kernels& kernels, unsigned look_ahead)
    : pipeline_(kernels, look_ahead), bursts_(kBursts), batches_(kBatches) {}

void Flight::push(const WorkerSnapshot& snapshot, const Route& route) noexcept {
  Burst& burst = next();
  pushed_++;
  burst.snapshot = &snapshot;
  burst.route = &route;
  burst.waiting = 0;
  for (size_t i = 0; i < snapshot.lookups.size(); i++) {
    KeyBatch& batch = batches_[batch_ % kBatches];
    keys(snapshot.lookups[i], burst, batch);
    if (batch.n == 0) continue;
    batch.lane = &snapshot.lanes[i];
    batch_++;
    burst.waiting++;
    pipeline_.push(&batch);
    collect();
  }
}

Burst* Flight::pop() noexcept {
  if (empty() || bursts_[popped_ % kBursts].waiting != 0) return nullptr;
  return &bursts_[popped_++ % kBursts];
}

void Flight::drain() noexcept {
  pipeline_.drain();
  collect();
}

void Flight::collect() noexcept {
  while (filter::Batch* done = pipeline_.pop()) exact(static_cast<KeyBatch&>(*done));
}

}  // namespace weir::dataplane
