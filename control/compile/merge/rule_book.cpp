#include "control/compile/merge/rule_book.h"

#include <xxhash.h>

#include <algorithm>

namespace weir::control {
namespace {

// The id of value, given the next one when it is new.
template <class Ids, class Values, class Value>
uint32_t intern(Ids& ids, Values& values, const Value& value) {
  const auto [found, is_new] = ids.try_emplace(value, static_cast<uint32_t>(values.size()));
  if (is_new) values.push_back(value);
  return found->second;
}

}  // namespace

template <class T>
size_t RuleBook::BytesHash<T>::operator()(const T& value) const {
  return XXH3_64bits(&value, sizeof value);
}

template struct RuleBook::BytesHash<weir_set>;
template struct RuleBook::BytesHash<weir_rule>;
template struct RuleBook::BytesHash<weir_residual>;

RuleBook::RuleBook() {
  chain_id({});
  rule(weir_set{}, weir_set{});
}

uint32_t RuleBook::set_id(const weir_set& set) {
  return intern(set_ids_, sets_, set);
}

uint32_t RuleBook::chain_id(Chain chain) {
  return intern(chain_ids_, chains_, chain);
}

uint32_t RuleBook::rule_id(const weir_rule& rule) {
  return intern(rule_ids_, rules_, rule);
}

uint32_t RuleBook::rule(const weir_set& source, const weir_set& destination) {
  return rule_id({set_id(source), set_id(destination), 0, 0});
}

uint32_t RuleBook::rule_if(const weir_residual& condition, uint8_t directions, unsigned list) {
  weir_set lists = {};
  add_list(lists, list);
  const bool as_source = (directions & WEIR_AS_SOURCE) != 0, as_destination = (directions & WEIR_AS_DESTINATION) != 0;
  if (condition.asks == 0) return rule(as_source ? lists : weir_set{}, as_destination ? lists : weir_set{});

  weir_residual bare = condition;
  bare.set = 0;
  bare.last = 0;
  const uint32_t chain = chain_id({{intern(condition_ids_, conditions_, bare), set_id(lists)}});
  return rule_id({0, 0, as_source ? chain : 0, as_destination ? chain : 0});
}

uint32_t RuleBook::unite_sets(uint32_t a, uint32_t b) {
  if (a == b || b == 0) return a;
  return a == 0 ? b : set_id(sets_[a] | sets_[b]);
}

uint32_t RuleBook::unite_chains(uint32_t a, uint32_t b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  Chain both;
  std::merge(chains_[a].begin(), chains_[a].end(), chains_[b].begin(), chains_[b].end(), std::back_inserter(both));
  Chain united;
  for (const Link& link : both) {
    if (!united.empty() && united.back().condition == link.condition) {
      united.back().set = unite_sets(united.back().set, link.set);
    } else {
      united.push_back(link);
    }
  }
  return chain_id(std::move(united));
}

uint32_t RuleBook::unite(uint32_t a, uint32_t b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  const weir_rule first = rules_[a], second = rules_[b];
  return rule_id({unite_sets(first.source_set, second.source_set),
                  unite_sets(first.destination_set, second.destination_set),
                  unite_chains(first.source_chain, second.source_chain),
                  unite_chains(first.destination_chain, second.destination_chain)});
}

size_t RuleBook::longest_chain() const {
  size_t longest = 0;
  for (const weir_rule& rule : rules_) {
    longest = std::max({longest, chain_length(rule.source_chain), chain_length(rule.destination_chain)});
  }
  return longest;
}

void RuleBook::write(filter::SnapshotInput& input) const {
  constexpr uint32_t kUnused = UINT32_MAX;
  std::vector<uint32_t> rule_of(rules_.size(), kUnused), set_of(sets_.size(), kUnused),
      chain_of(chains_.size(), kUnused);
  input.sets = {weir_set{}};
  input.rules = {weir_rule{}};
  input.residuals = {filter::no_residual()};
  rule_of[0] = set_of[0] = chain_of[0] = 0;

  const auto place_of_set = [&](uint32_t set) {
    if (set_of[set] == kUnused) {
      set_of[set] = static_cast<uint32_t>(input.sets.size());
      input.sets.push_back(sets_[set]);
    }
    return set_of[set];
  };
  const auto place_of_chain = [&](uint32_t chain) {
    if (chain_of[chain] == kUnused) {
      chain_of[chain] = static_cast<uint32_t>(input.residuals.size());
      for (const Link& link : chains_[chain]) {
        input.residuals.push_back(conditions_[link.condition]);
        input.residuals.back().set = place_of_set(link.set);
      }
      input.residuals.back().last = 1;
    }
    return chain_of[chain];
  };
  const auto renumber = [&](uint32_t& rule) {
    if (rule_of[rule] == kUnused) {
      const weir_rule& of_book = rules_[rule];
      rule_of[rule] = static_cast<uint32_t>(input.rules.size());
      input.rules.push_back({place_of_set(of_book.source_set), place_of_set(of_book.destination_set),
                             place_of_chain(of_book.source_chain), place_of_chain(of_book.destination_chain)});
    }
    rule = rule_of[rule];
  };
  for (filter::NetworkRun& run : input.networks) renumber(run.rule);
  for (filter::KeyTable& table : input.tables) {
    for (uint32_t& rule : table.rules) renumber(rule);
  }
}

}  // namespace weir::control
