#pragma once

#include <bit>
#include <cstdint>

#include "control/compile/merge/rule_book.h"
#include "filter/format/snapshot.h"

namespace weir::control {

constexpr int kNoList = -1;  // credited to the policy's default

struct Judgement {
  weir_action action;
  int list;  // credited, or kNoList
};

inline int first_list(const weir_set& set) {
  for (unsigned w = 0; w < WEIR_LIST_WORDS; w++) {
    if (set.lists[w] != 0) return static_cast<int>(64 * w) + std::countr_zero(set.lists[w]);
  }
  return kNoList;
}

inline weir_set lists_in(const weir_set& set, const weir_u64 (&mask)[WEIR_LIST_WORDS]) {
  weir_set both;
  for (unsigned w = 0; w < WEIR_LIST_WORDS; w++) both.lists[w] = set.lists[w] & mask[w];
  return both;
}

// The verdict for a packet that the lists of `matched` match: pass lists, then drop lists, then the default
// (docs/use/policy.md).
inline Judgement judge(const weir_snapshot_header& header, const weir_set& matched) {
  const int pass = first_list(lists_in(matched, header.pass_lists));
  if (pass != kNoList) return {WEIR_PASS, pass};
  const int drop = first_list(lists_in(matched, header.drop_lists));
  if (drop != kNoList) return {WEIR_DROP, drop};
  return {static_cast<weir_action>(header.default_action), kNoList};
}

}  // namespace weir::control
