#include "dataplane/burst/flight.h"

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

Flight::Flight(const filter::Kernels& kernels)
    : pipeline_(kernels, 1), groups_(new Burst[kGroups]), batches_(new KeyBatch[kBatches]) {
  for (uint32_t g = 0; g < kGroups; g++) clear(groups_[g]);
}

Burst* Flight::pop() noexcept {
  if (popped_ == closed_ || groups_[popped_ % kGroups].waiting != 0) return nullptr;
  return &groups_[popped_++ % kGroups];
}

void Flight::drain() noexcept {
  pipeline_.drain();
  while (const KeyBatch* batch = probed()) match(*batch);
}

void look_up(const WorkerSnapshot& snapshot, const filter::Kernels& kernels, Flight& flight) noexcept {
  Burst& burst = flight.close(snapshot);
  if (snapshot.wants.fields) read_fields(burst.asked[kSource] | burst.asked[kDestination], burst);
  for (size_t i = 0; i < snapshot.lookups.size(); i++) {
    KeyBatch& batch = flight.next_batch();
    keys(snapshot.lookups[i], kernels, burst, batch);
    if (batch.n == 0) continue;
    flight.probe(batch, snapshot.lanes[i]);
    while (const KeyBatch* probed = flight.probed()) match(*probed);
  }
  flight.probing_done(burst);
}

}  // namespace weir::dataplane
