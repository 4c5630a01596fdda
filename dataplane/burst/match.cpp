#include "dataplane/burst/stages.h"
#include "filter/format/residual.h"

namespace weir::dataplane {

namespace {

// Whose rules the keys of a batch have.
struct Rules {
  const filter::SnapshotView* view;
  uint32_t mark;  // of its sets' ids in Burst::set_id
};

// A packet that matches by a second key.
[[gnu::noinline]] void join_lists(const weir_set& set, Burst& burst, uint32_t slot) noexcept {
  weir_set& matched = burst.matched[slot];
  const weir_set before = lists_of(burst, slot);
  for (unsigned w = 0; w < WEIR_LIST_WORDS; w++) matched.lists[w] = before.lists[w] | set.lists[w];
  burst.set_id[slot] = 0;
}

// set_id: not 0, the empty set.
void add_lists(Rules rules, uint32_t set_id, Burst& burst, uint32_t slot) noexcept {
  const uint32_t marked = set_id | rules.mark;
  if ((burst.hit & bit(slot)) != 0) {
    if (burst.set_id[slot] != marked) join_lists(rules.view->set(set_id), burst, slot);
  } else {
    burst.set_id[slot] = marked;
    burst.hit |= bit(slot);
  }
}

// Adds the lists of the residuals that hold.
[[gnu::noinline]] void follow_chain(Rules rules, uint32_t chain, Burst& burst, uint32_t slot) noexcept {
  const Headers& headers = headers_of(burst, slot);
  rules.view->visit_chain(chain, [&](const weir_residual& residual) {
    if (weir_residual_holds(&residual, &headers, burst.now_unix_s)) {
      add_lists(rules, residual.set, burst, slot);
    }
  });
}

// A packet that more than one set may match, or one whose rule asks for more.
[[gnu::noinline]] void match_further(Rules rules, uint32_t set_id, uint32_t chain, Burst& burst,
                                     uint32_t slot) noexcept {
  // Neither: a key of the other side, or one that the overlay takes its lists away.
  if (set_id != 0) add_lists(rules, set_id, burst, slot);
  if (chain != 0) follow_chain(rules, chain, burst, slot);
}

// found: of the batch's keys.
void match_found(const KeyBatch& batch, uint64_t found, Rules rules) noexcept {
  Burst& burst = *batch.burst;
  const bool as_source = batch.side == kSource;
  uint64_t first_hits = 0;  // a slot has one key in a batch
  for (uint64_t left = found; left != 0; left &= left - 1) {
    const auto k = static_cast<uint32_t>(__builtin_ctzll(left));
    const uint32_t slot = batch.key_of[k];
    const weir_rule& rule = rules.view->rule(batch.rule[k]);
    const uint32_t set_id = as_source ? rule.source_set : rule.destination_set;
    const uint32_t chain = as_source ? rule.source_chain : rule.destination_chain;
    if (chain == 0 && set_id != 0 && (burst.hit & bit(slot)) == 0) [[likely]] {
      burst.set_id[slot] = set_id | rules.mark;
      first_hits |= bit(slot);
    } else {
      match_further(rules, set_id, chain, burst, slot);
    }
  }
  burst.hit |= first_hits;
}

uint64_t slots_of(const KeyBatch& batch, uint64_t found) noexcept {
  uint64_t slots = 0;
  for (uint64_t left = found; left != 0; left &= left - 1) slots |= bit(batch.key_of[__builtin_ctzll(left)]);
  return slots;
}

// Of the keys that were found, those of packets whose key the overlay does not have.
uint64_t not_replaced(const KeyBatch& batch) noexcept {
  const uint64_t replaced = batch.burst->replaced;
  uint64_t found = batch.found;
  if (replaced == 0) return found;
  for (uint64_t left = found; left != 0; left &= left - 1) {
    const auto k = static_cast<uint32_t>(__builtin_ctzll(left));
    found &= ~((replaced >> batch.key_of[k] & 1) << k);
  }
  return found;
}

}  // namespace

// A replaceable batch comes right behind the replacing one of the same packets: that one is never left out when this
// one is there, because no packet is asked here that is not asked there.
void match(const KeyBatch& batch) noexcept {
  Burst& burst = *batch.burst;
  const WorkerSnapshot& snapshot = *burst.snapshot;
  if (batch.probes != nullptr) batch.probes->count(batch);
  uint64_t found = batch.found;
  Rules rules = {snapshot.view, 0};
  if (batch.part == Part::replaceable) {
    found = not_replaced(batch);
  } else if (is_of_overlay(batch.part)) {
    if (batch.part == Part::replacing) burst.replaced = slots_of(batch, found);
    rules = {snapshot.overlay, kOfOverlay};
  }
  match_found(batch, found, rules);
}

}  // namespace weir::dataplane
