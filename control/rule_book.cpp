#include "control/rule_book.h"

#include <xxhash.h>

namespace weir::control {

size_t RuleBook::SetHash::operator()(const weir_set& set) const {
  return XXH3_64bits(&set, sizeof set);
}

RuleBook::RuleBook() {
  rule(weir_set{}, weir_set{});
}

uint32_t RuleBook::set_id(const weir_set& set) {
  const auto [found, is_new] = set_ids_.try_emplace(set, static_cast<uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(set);
  return found->second;
}

uint32_t RuleBook::rule(const weir_set& source, const weir_set& destination) {
  const weir_rule rule = {set_id(source), set_id(destination), 0, 0};
  const uint64_t ids = uint64_t{rule.source_set} << 32 | rule.destination_set;
  const auto [found, is_new] = rule_ids_.try_emplace(ids, static_cast<uint32_t>(rules_.size()));
  if (is_new) rules_.push_back(rule);
  return found->second;
}

uint32_t RuleBook::unite(uint32_t a, uint32_t b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  const weir_rule &first = rules_[a], &second = rules_[b];
  const weir_set source = sets_[first.source_set] | sets_[second.source_set];
  const weir_set destination = sets_[first.destination_set] | sets_[second.destination_set];
  return rule(source, destination);
}

}  // namespace weir::control
