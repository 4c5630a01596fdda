#include "dataplane/stages.h"

namespace weir::dataplane {

void probe(const WorkerSnapshot& snapshot, const Lookup& lookup, Burst& burst) noexcept {
  const uint64_t* const words[WEIR_MAX_KEY_WORDS] = {burst.word[0], burst.word[1], burst.word[2]};
  burst.maybe = burst.n_keys == 0 ? 0
                                  : filter::filter_check(*snapshot.kernels, *lookup.shape, words, burst.n_keys, burst.hash);
}

}  // namespace weir::dataplane
