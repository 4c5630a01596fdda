#include "dataplane/stages.h"

namespace weir::dataplane {

void exact(const KeyBatch& batch) noexcept {
  Burst& burst = *batch.burst;
  const filter::SnapshotView& view = *burst.snapshot->view;
  burst.waiting--;
  for (uint64_t left = batch.found; left != 0; left &= left - 1) {
    const uint32_t k = static_cast<uint32_t>(__builtin_ctzll(left));
    const weir_rule& rule = view.rule(batch.rule[k]);
    const uint32_t set_id = batch.side == kSource ? rule.source_set : rule.destination_set;
    if (set_id == 0) continue;  // a key of the other side

    const weir_set& set = view.set(set_id);
    const uint32_t frame = batch.key_of[k];
    weir_set& matched = burst.matched[frame];
    if ((burst.hit & bit(frame)) == 0) {
      matched = set;
      burst.hit |= bit(frame);
    } else {
      for (unsigned w = 0; w < WEIR_LIST_WORDS; w++) matched.lists[w] |= set.lists[w];
    }
  }
}

}  // namespace weir::dataplane
