#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "control/policy/model/entry.h"
#include "control/sources/flowspec/message.h"

namespace weir::control::flowspec {

// What one peer announces, what a list is to hold for it, and what it holds. Knows no socket and no controld. An entry
// of several rules stays until the last of them is withdrawn.
class RuleTable {
 public:
  // An entry as the list writes it. Error: the list cannot hold it.
  using Writer = std::function<Result<std::string>(const Flow& flow)>;
  struct Limits {
    size_t rules = 10'000;
    size_t entries = 100'000;  // of all rules
  };
  RuleTable(Limits limits, Writer write) : limits_(limits), write_(std::move(write)) {}

  // --- between the peer and the table ---

  // A new session: what was announced before stays until end_of_rib().
  void begin_anew();
  void announce(const RuleKey& key, const Action& action);
  void withdraw(const RuleKey& key);
  // What the family did not announce since begin_anew() goes.
  void end_of_rib(Family family);
  void clear();

  // A rule that has no entries, and why: told once for each reason.
  struct Refusal {
    std::string rule, reason;
  };
  std::vector<Refusal> take_refusals();

  // --- between the table and the list ---

  struct Wanted {
    RuleKey key;
    std::string text;                  // of the rule
    std::vector<std::string> entries;  // all that it needs
  };
  // Rules whose entries the list lacks.
  std::vector<Wanted> missing() const;
  // Entries of the list that are no rule's any more.
  std::vector<std::string> surplus() const;
  // Entries that were found there, and are no rule's yet: of a program that ran before, say.
  std::vector<std::string> unclaimed() const;
  void is_added(const Wanted& rule);
  void is_deleted(const std::vector<std::string>& entries);
  // controld does not take the entries of this rule: they are not missing until retry().
  void refuse(const Wanted& rule, const std::string& reason);
  void retry();
  // What the list holds of this peer, as it was found there.
  void is_found(std::vector<std::string> entries);
  // What the list holds, rule by rule, without what it lacks; entries of no rule are left out.
  std::vector<Wanted> held() const;

  struct Counts {
    uint64_t rules = 0, refused = 0;
    uint64_t entries = 0;  // in the list
    uint64_t pending = 0;  // rules that it lacks, and entries that it has too much
    bool operator==(const Counts&) const = default;
  };
  Counts counts() const;

 private:
  struct State {
    std::string text;
    std::vector<std::string> entries;  // sorted, each once
    std::string refusal;               // why it is not in force; empty: it is to be
    std::string told;                  // the last refusal that was told
    bool is_by_list = false;           // controld refused it: it has entries
    bool is_old = false;               // of the session before
  };
  using Rules = std::map<RuleKey, State>;
  State read(const RuleKey& key, const Action& action) const;
  void say(State& state);
  void want(const RuleKey& key, const State& state);
  void want_no_more(const RuleKey& key, const State& state);
  Rules::iterator erase(Rules::iterator rule);
  bool is_whole(const State& state) const;

  const Limits limits_;
  const Writer write_;
  Rules rules_;
  uint64_t refused_ = 0;
  size_t entries_ = 0;                                // that rules want, each as often as it is wanted
  std::unordered_map<std::string, uint64_t> wanted_;  // by how many rules
  std::unordered_set<std::string> held_;              // by the list
  std::set<RuleKey> missing_;
  std::unordered_set<std::string> surplus_, unclaimed_;
  std::vector<Refusal> refusals_;
};

}  // namespace weir::control::flowspec
