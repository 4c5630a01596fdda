#include "dataplane/burst/stages.h"
#include "filter/format/residual.h"

namespace weir::dataplane {

namespace {

// A packet that matches by a second key.
[[gnu::noinline]] void join_lists(const weir_set& set, Burst& burst, uint32_t slot) noexcept {
  weir_set& matched = burst.matched[slot];
  const weir_set before = lists_of(burst, slot);
  for (unsigned w = 0; w < WEIR_LIST_WORDS; w++) matched.lists[w] = before.lists[w] | set.lists[w];
  burst.set_id[slot] = 0;
}

// set_id: not 0, the empty set.
void add_lists(const filter::SnapshotView& view, uint32_t set_id, Burst& burst, uint32_t slot) noexcept {
  if ((burst.hit & bit(slot)) != 0) {
    if (burst.set_id[slot] != set_id) join_lists(view.set(set_id), burst, slot);
  } else {
    burst.set_id[slot] = set_id;
    burst.hit |= bit(slot);
  }
}

// Adds the lists of the residuals that hold.
[[gnu::noinline]] void follow_chain(const filter::SnapshotView& view, uint32_t chain, Burst& burst,
                                    uint32_t slot) noexcept {
  const Headers& headers = headers_of(burst, slot);
  view.visit_chain(chain, [&](const weir_residual& residual) {
    if (weir_residual_holds(&residual, &headers, burst.now_unix_s)) {
      add_lists(view, residual.set, burst, slot);
    }
  });
}

// A packet that more than one set may match, or one whose rule asks for more.
[[gnu::noinline]] void match_further(const filter::SnapshotView& view, uint32_t set_id, uint32_t chain, Burst& burst,
                                     uint32_t slot) noexcept {
  // Neither: a key of the other side.
  if (set_id != 0) add_lists(view, set_id, burst, slot);
  if (chain != 0) follow_chain(view, chain, burst, slot);
}

}  // namespace

void match(const KeyBatch& batch) noexcept {
  Burst& burst = *batch.burst;
  const filter::SnapshotView& view = *burst.snapshot->view;
  const bool as_source = batch.side == kSource;
  burst.matched_batches++;
  uint64_t first_hits = 0;  // a slot has one key in a batch
  for (uint64_t left = batch.found; left != 0; left &= left - 1) {
    const auto k = static_cast<uint32_t>(__builtin_ctzll(left));
    const uint32_t slot = batch.key_of[k];
    const weir_rule& rule = view.rule(batch.rule[k]);
    const uint32_t set_id = as_source ? rule.source_set : rule.destination_set;
    const uint32_t chain = as_source ? rule.source_chain : rule.destination_chain;
    if (chain == 0 && set_id != 0 && (burst.hit & bit(slot)) == 0) [[likely]] {
      burst.set_id[slot] = set_id;
      first_hits |= bit(slot);
    } else {
      match_further(view, set_id, chain, burst, slot);
    }
  }
  burst.hit |= first_hits;
}

}  // namespace weir::dataplane
