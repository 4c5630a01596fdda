#include "control/sources/flowspec/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/sources/flowspec/entries.h"

namespace weir::control::flowspec {

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

bool RuleTable::is_whole(const State& state) const {
  return std::all_of(state.entries.begin(), state.entries.end(),
                     [&](const std::string& entry) { return held_.count(entry) != 0; });
}

void RuleTable::want(const RuleKey& key, const State& state) {
  entries_ += state.entries.size();
  for (const std::string& entry : state.entries) {
    if (wanted_[entry]++ != 0) continue;
    surplus_.erase(entry);
    unclaimed_.erase(entry);
  }
  if (!is_whole(state)) missing_.insert(key);
}

void RuleTable::want_no_more(const RuleKey& key, const State& state) {
  missing_.erase(key);
  entries_ -= state.entries.size();
  for (const std::string& entry : state.entries) {
    const auto found = wanted_.find(entry);
    if (--found->second != 0) continue;
    wanted_.erase(found);
    if (held_.count(entry) != 0) surplus_.insert(entry);
  }
}

RuleTable::Rules::iterator RuleTable::erase(Rules::iterator rule) {
  if (rule->second.refusal.empty()) {
    want_no_more(rule->first, rule->second);
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
    want(key, state);
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
  return std::exchange(refusals_, {});
}

std::vector<RuleTable::Wanted> RuleTable::missing() const {
  std::vector<Wanted> all;
  for (const RuleKey& key : missing_) {
    const State& state = rules_.at(key);
    all.push_back({key, state.text, state.entries});
  }
  return all;
}

std::vector<std::string> RuleTable::surplus() const {
  return {surplus_.begin(), surplus_.end()};
}

std::vector<std::string> RuleTable::unclaimed() const {
  return {unclaimed_.begin(), unclaimed_.end()};
}

void RuleTable::is_added(const Wanted& rule) {
  for (const std::string& entry : rule.entries) {
    held_.insert(entry);
    if (wanted_.count(entry) == 0) surplus_.insert(entry);  // the rule went meanwhile
  }
  const auto known = rules_.find(rule.key);
  if (known != rules_.end() && is_whole(known->second)) missing_.erase(rule.key);
}

void RuleTable::is_deleted(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    held_.erase(entry);
    surplus_.erase(entry);
    unclaimed_.erase(entry);
  }
  // A rule that came meanwhile may want one of them.
  for (const auto& [key, state] : rules_) {
    if (state.refusal.empty() && !is_whole(state)) missing_.insert(key);
  }
}

void RuleTable::refuse(const Wanted& rule, const std::string& reason) {
  const auto known = rules_.find(rule.key);
  if (known == rules_.end() || !known->second.refusal.empty() || known->second.entries != rule.entries) return;
  State& state = known->second;
  want_no_more(rule.key, state);
  state.refusal = reason;
  state.is_by_list = true;
  refused_++;
  say(state);
}

void RuleTable::retry() {
  for (auto& [key, state] : rules_) {
    if (!state.is_by_list) continue;
    state.is_by_list = false;
    state.refusal.clear();
    refused_--;
    want(key, state);
  }
}

void RuleTable::is_found(std::vector<std::string> entries) {
  const std::unordered_set<std::string> known = std::move(surplus_);
  held_.clear();
  surplus_.clear();
  unclaimed_.clear();
  missing_.clear();
  for (std::string& entry : entries) {
    if (wanted_.count(entry) == 0) (known.count(entry) != 0 ? surplus_ : unclaimed_).insert(entry);
    held_.insert(std::move(entry));
  }
  for (const auto& [key, state] : rules_) {
    if (state.refusal.empty() && !is_whole(state)) missing_.insert(key);
  }
}

std::vector<RuleTable::Wanted> RuleTable::held() const {
  std::vector<Wanted> all;
  for (const auto& [key, state] : rules_) {
    if (!state.refusal.empty()) continue;
    Wanted rule = {key, state.text, {}};
    for (const std::string& entry : state.entries) {
      if (held_.count(entry) != 0) rule.entries.push_back(entry);
    }
    if (!rule.entries.empty()) all.push_back(std::move(rule));
  }
  return all;
}

RuleTable::Counts RuleTable::counts() const {
  return {rules_.size(), refused_, held_.size(), missing_.size() + surplus_.size()};
}

}  // namespace weir::control::flowspec
