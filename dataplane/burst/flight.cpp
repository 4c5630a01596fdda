#include "dataplane/burst/flight.h"

#include <cassert>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

Flight::Flight(const filter::Kernels& kernels, unsigned look_ahead)
    : look_ahead_(look_ahead), pipeline_(kernels, look_ahead), bursts_(kBursts), batches_(kBatches) {
  for (Burst& burst : bursts_) free_bursts_.push_back(&burst);
  for (KeyBatch& batch : batches_) free_batches_.push_back(&batch);
}

Burst* Flight::carry_over(const Burst& taken) noexcept {
  if (taken.n_carried == 0) return nullptr;
  assert(!free_bursts_.empty());
  Burst& rest = next();
  rest.n = taken.n_carried;
  rest.bytes = 0;
  rest.now_unix_s = taken.now_unix_s;
  for (uint32_t i = 0; i < rest.n; i++) {
    rest.pkt[i] = taken.pkt[taken.n + i];
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
  while (const KeyBatch* batch = probed()) match(*batch);
}

}  // namespace weir::dataplane
