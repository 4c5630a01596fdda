#include "dataplane/burst/flight.h"

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

Flight::Flight(const filter::Kernels& kernels)
    : pipeline_(kernels, 1), groups_(new Burst[kGroups]), batches_(new KeyBatch[kBatches]) {
  for (uint32_t g = kGroups; g-- > 0;) {
    clear(groups_[g]);
    free_groups_[n_free_groups_++] = &groups_[g];
  }
  for (uint32_t b = kBatches; b-- > 0;) free_batches_[n_free_batches_++] = &batches_[b];
  open_ = free_groups_[--n_free_groups_];
}

Burst* Flight::pop() noexcept {
  if (popped_ == closed_) return nullptr;
  Burst* burst = ring_[popped_ % kGroups];
  if (burst->matched_batches != burst->begun) return nullptr;
  popped_++;
  return burst;
}

void Flight::match_probed() noexcept {
  while (filter::Batch* batch = pipeline_.pop()) {
    auto* probed = static_cast<KeyBatch*>(batch);
    match(*probed);
    free_batches_[n_free_batches_++] = probed;
  }
}

void Flight::drain() noexcept {
  pipeline_.drain();
  match_probed();
}

void look_up(const WorkerSnapshot& snapshot, const filter::Kernels& kernels, Flight& flight) noexcept {
  Burst& burst = flight.close(snapshot);
  if (snapshot.wants.fields) read_fields(burst.asked[kSource] | burst.asked[kDestination], burst);
  uint32_t begun = 0;
  for (size_t i = 0; i < snapshot.lookups.size(); i++) {
    KeyBatch& batch = flight.next_batch();
    keys(snapshot.lookups[i], kernels, burst, batch);
    if (batch.n == 0) continue;
    batch.probes = snapshot.probes[i];
    flight.probe(batch, snapshot.lanes[i]);
    begun++;
    flight.match_probed();
  }
  flight.probing_done(begun);
}

}  // namespace weir::dataplane
