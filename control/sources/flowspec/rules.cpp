#include "control/sources/flowspec/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/sources/flowspec/entries.h"

namespace weir::control::flowspec {
namespace {

std::string claim_id(const RuleKey& key) {
  return static_cast<char>(key.family) + key.bytes;
}

RuleKey key_of(const std::string& claim_id) {
  return {static_cast<Family>(claim_id[0]), claim_id.substr(1)};
}

}  // namespace

void RuleTable::begin_anew() {
  for (auto& [key, state] : rules_) state.is_old = true;
}

// Its entries, or why it has none.
RuleTable::State RuleTable::read(const RuleKey& key, const Action& action) const {
  State state;
  const auto* bytes = reinterpret_cast<const uint8_t*>(key.bytes.data());
  const Result<Rule> rule = parse_rule(key.family, {bytes, key.bytes.size()});
  if (!rule) {
    state.text = fmt::format("{} bytes of {}", key.bytes.size(), key.family == Family::v4 ? "IPv4" : "IPv6");
    state.refusal = "malformed: " + rule.error();
    return state;
  }
  state.text = text_of(*rule);
  if (!action.is_drop) {
    state.refusal = "it does not drop (" + action.otherwise + "): weir takes traffic-rate 0";
    return state;
  }
  const Result<std::vector<Flow>> flows = entries_of(*rule);
  if (!flows) {
    state.refusal = flows.error();
    return state;
  }
  for (const Flow& flow : *flows) {
    Result<std::string> entry = write_(flow);
    if (!entry) {
      state.refusal = entry.error();
      state.entries.clear();
      return state;
    }
    state.entries.push_back(std::move(*entry));
  }
  std::sort(state.entries.begin(), state.entries.end());
  state.entries.erase(std::unique(state.entries.begin(), state.entries.end()), state.entries.end());
  return state;
}

void RuleTable::say(State& state) {
  if (state.told == state.refusal) return;
  state.told = state.refusal;
  refusals_.push_back({state.text, state.refusal});
}

RuleTable::Rules::iterator RuleTable::erase(Rules::iterator rule) {
  list_.release(claim_id(rule->first));
  if (rule->second.refusal.empty()) {
    entries_ -= rule->second.entries.size();
  } else {
    refused_--;
  }
  return rules_.erase(rule);
}

void RuleTable::announce(const RuleKey& key, const Action& action) {
  State state = read(key, action);
  if (const auto known = rules_.find(key); known != rules_.end()) {
    State& before = known->second;
    before.is_old = false;
    const bool is_same = before.entries == state.entries && (before.is_by_list || before.refusal == state.refusal);
    if (is_same) return;
    if (!before.refusal.empty()) state.told = before.told;
    erase(known);
  } else if (rules_.size() >= limits_.rules) {
    state.refusal = fmt::format(
        "there are {} rules already (--max-rules): it is not taken until the session begins anew", rules_.size());
    return say(state);
  }
  if (state.refusal.empty() && entries_ + state.entries.size() > limits_.entries) {
    state.refusal = fmt::format("the rules are {} entries already: {} are the most", entries_, limits_.entries);
    state.entries.clear();
  }
  if (state.refusal.empty()) {
    entries_ += state.entries.size();
    list_.claim(claim_id(key), {state.entries, kNever, state.text});
  } else {
    refused_++;
    say(state);
  }
  rules_.insert_or_assign(key, std::move(state));
}

void RuleTable::withdraw(const RuleKey& key) {
  if (const auto rule = rules_.find(key); rule != rules_.end()) erase(rule);
}

void RuleTable::end_of_rib(Family family) {
  for (auto rule = rules_.begin(); rule != rules_.end();) {
    rule = rule->second.is_old && rule->first.family == family ? erase(rule) : std::next(rule);
  }
}

void RuleTable::clear() {
  for (auto rule = rules_.begin(); rule != rules_.end();) rule = erase(rule);
}

std::vector<RuleTable::Refusal> RuleTable::take_refusals() {
  for (const FollowedList::Refusal& one : list_.take_refusals()) {
    const auto known = one.id.empty() ? rules_.end() : rules_.find(key_of(one.id));
    if (known == rules_.end() || !known->second.refusal.empty()) continue;  // it was withdrawn meanwhile
    State& state = known->second;
    entries_ -= state.entries.size();
    state.refusal = one.reason;
    state.is_by_list = true;
    refused_++;
    say(state);
  }
  return std::exchange(refusals_, {});
}

void RuleTable::retry() {
  for (auto& [key, state] : rules_) {
    if (!state.is_by_list) continue;
    state.is_by_list = false;
    state.refusal.clear();
    refused_--;
    entries_ += state.entries.size();
  }
  list_.retry();
}

RuleTable::Counts RuleTable::counts() const {
  const FollowedList::Counts of_list = list_.counts();
  return {rules_.size(), refused_, of_list.ours, of_list.pending};
}

}  // namespace weir::control::flowspec
