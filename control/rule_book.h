#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "filter/snapshot.h"

namespace weir::control {

inline void add_list(weir_set& set, unsigned list) {
  set.lists[list / 64] |= uint64_t{1} << (list % 64);
}

inline bool has_list(const weir_set& set, unsigned list) {
  return (set.lists[list / 64] >> (list % 64) & 1) != 0;
}

inline bool is_empty(const weir_set& set) {
  return (set.lists[0] | set.lists[1] | set.lists[2] | set.lists[3]) == 0;
}

inline weir_set operator|(const weir_set& a, const weir_set& b) {
  weir_set both;
  for (unsigned w = 0; w < WEIR_LIST_WORDS; w++) both.lists[w] = a.lists[w] | b.lists[w];
  return both;
}

// Every set of lists and every rule of a snapshot, each once. Ids never change, so a rule can be handed out before
// the next one is known. Set 0 is empty, rule 0 is none.
class RuleBook {
 public:
  RuleBook();

  uint32_t rule(const weir_set& source, const weir_set& destination);
  uint32_t unite(uint32_t a, uint32_t b);  // the rule of a key that has both

  const std::vector<weir_set>& sets() const { return sets_; }
  const std::vector<weir_rule>& rules() const { return rules_; }

 private:
  struct SetHash {
    size_t operator()(const weir_set& set) const;
  };
  struct SetEqual {
    bool operator()(const weir_set& a, const weir_set& b) const { return memcmp(&a, &b, sizeof a) == 0; }
  };
  uint32_t set_id(const weir_set& set);

  std::vector<weir_set> sets_;
  std::vector<weir_rule> rules_;
  std::unordered_map<weir_set, uint32_t, SetHash, SetEqual> set_ids_;
  std::unordered_map<uint64_t, uint32_t> rule_ids_;  // source_set << 32 | destination_set
};

}  // namespace weir::control
