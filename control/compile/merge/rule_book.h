#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <unordered_map>
#include <vector>

#include "filter/build/builder.h"
#include "filter/format/snapshot.h"

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

// Every set of lists, every rule and every chain of residuals of a snapshot, each once. Ids never change, so a rule can
// be handed out before the next one is known. Set 0 is empty, rule 0 is none, chain 0 too.
class RuleBook {
 public:
  RuleBook();

  uint32_t rule(const weir_set& source, const weir_set& destination);
  // The rule of a key that, when the condition holds, has the list on these sides (mask of weir_direction). Of the
  // condition everything but `set` and `last` counts; one that asks nothing always holds.
  uint32_t rule_if(const weir_residual& condition, uint8_t directions, unsigned list);
  uint32_t unite(uint32_t a, uint32_t b);  // the rule of a key that has both

  // Chains are ids of this book here.
  const std::vector<weir_rule>& rules() const { return rules_; }
  const std::vector<weir_set>& sets() const { return sets_; }
  // Of the chain: how many residuals.
  size_t chain_length(uint32_t chain) const { return chains_[chain].size(); }
  size_t longest_chain() const;

  // Sets, rules and residuals as a snapshot holds them: those that the input's tables and networks lead to, numbered
  // anew, there too. Unions made on the way to others stay behind.
  void write(filter::SnapshotInput& input) const;

 private:
  struct Link {
    uint32_t condition;  // index of conditions_
    uint32_t set;
    auto operator<=>(const Link&) const = default;
  };
  using Chain = std::vector<Link>;  // by condition, each once
  template <class T>
  struct BytesHash {
    size_t operator()(const T& value) const;
  };
  template <class T>
  struct BytesEqual {
    bool operator()(const T& a, const T& b) const { return memcmp(&a, &b, sizeof a) == 0; }
  };
  template <class T>
  using Ids = std::unordered_map<T, uint32_t, BytesHash<T>, BytesEqual<T>>;

  uint32_t set_id(const weir_set& set);
  uint32_t chain_id(Chain chain);
  uint32_t rule_id(const weir_rule& rule);
  uint32_t unite_sets(uint32_t a, uint32_t b);
  uint32_t unite_chains(uint32_t a, uint32_t b);

  std::vector<weir_set> sets_;
  std::vector<weir_rule> rules_;
  std::vector<weir_residual> conditions_;
  std::vector<Chain> chains_;
  Ids<weir_set> set_ids_;
  Ids<weir_rule> rule_ids_;
  Ids<weir_residual> condition_ids_;
  std::map<Chain, uint32_t> chain_ids_;
};

}  // namespace weir::control
