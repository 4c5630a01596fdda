#pragma once

#include <cstring>

#include "filter/probe/dispatch.h"
#include "filter/probe/exact.h"
#include "filter/read/view.h"

namespace weir::filter::test {

// Follows everything that a validated snapshot offers to follow: keys taken from its own tables and made-up ones,
// through gates and both stages and on to rules, sets and lists. next() gives pseudo-random numbers. Meant to run under
// AddressSanitizer: the result only keeps the compiler from leaving it out.
template <class Next>
uint64_t follow_everything(const SnapshotView& view, Next next) {
  uint64_t seen = 0;
  const auto follow_rule = [&](uint32_t id) {
    const weir_rule& rule = view.rule(id);
    seen += view.set(rule.source_set).lists[0] + view.set(rule.destination_set).lists[WEIR_LIST_WORDS - 1];
  };
  for (const weir_list& list : view.lists()) seen += strlen(list.name) + list.n_entries;
  for (unsigned g = 0; g < WEIR_GATES; g++) seen += passes_gate(view.gate(g / 2 == 0 ? 4 : 6, g % 2), next());
  const Kernels& kernels = *all_kernels().back();
  for (const ShapeView& shape : view.shapes()) {
    const uint32_t exact_words = shape.layout == WEIR_LAYOUT_BITMAP ? 65536 / 2 : shape.exact_buckets * 8;
    uint64_t column[WEIR_MAX_KEY_WORDS][kMaxBatch];
    const uint64_t* words[WEIR_MAX_KEY_WORDS] = {column[0], column[1], column[2], column[3], column[4]};
    for (auto& word : column) {
      for (uint64_t& value : word) {
        // Half of them are bytes of the table itself: keys, rules, overflow bits at any alignment of 8.
        value = next() % 2 == 0 ? next() : load_word(shape.exact + next() % exact_words * 8);
      }
    }
    uint64_t hash[kMaxBatch] = {};
    seen += filter_check(kernels, shape, words, kMaxBatch, hash);
    for (unsigned i = 0; i < kMaxBatch; i++) {
      const Key key = {{column[0][i], column[1][i], column[2][i]}};
      follow_rule(find_rule(shape, key));
      follow_rule(exact_find(shape, key, hash[i]));
      follow_rule(exact_find(shape, key, next()));  // any page, any overflow chain
    }
  }
  return seen;
}

}  // namespace weir::filter::test
