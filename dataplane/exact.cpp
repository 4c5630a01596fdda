#include "dataplane/stages.h"

namespace weir::dataplane {

void exact(const WorkerSnapshot& snapshot, const Lookup& lookup, Burst& burst) noexcept {
  const unsigned n_words = filter::key_words(lookup.shape->shape);
  for (uint64_t left = burst.maybe; left != 0; left &= left - 1) {
    const uint32_t k = static_cast<uint32_t>(__builtin_ctzll(left));
    filter::Key key;
    for (unsigned w = 0; w < n_words; w++) key.word[w] = burst.word[w][k];
    const weir_rule& rule = snapshot.view->rule(filter::exact_find(*lookup.shape, key, burst.hash[k]));
    const uint32_t set_id = lookup.side == kSource ? rule.source_set : rule.destination_set;
    if (set_id == 0) continue;  // a stranger that the filter let through, or a key of the other side

    const weir_set& set = snapshot.view->set(set_id);
    const uint32_t frame = burst.key_of[k];
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
