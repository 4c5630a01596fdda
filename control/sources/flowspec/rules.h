#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "control/policy/model/entry.h"
#include "control/sources/flowspec/message.h"
#include "control/sources/followed/followed_list.h"

namespace weir::control::flowspec {

// The rules that one peer announces, each of which claims entries of a list. Knows no socket and no controld.
class RuleTable {
 public:
  // An entry as the list writes it. Error: the list cannot hold it.
  using Writer = std::function<Result<std::string>(const Flow& flow)>;
  struct Limits {
    size_t rules = 10'000;
    size_t entries = 100'000;  // of all rules
  };
  RuleTable(Limits limits, Writer write) : limits_(limits), write_(std::move(write)) {}

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

  // The list that follows the rules. Comments of its batches are the rules' texts.
  FollowedList& list() { return list_; }
  // Rules that the list refused claim their entries again.
  void retry();

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
  Rules::iterator erase(Rules::iterator rule);

  const Limits limits_;
  const Writer write_;
  Rules rules_;
  uint64_t refused_ = 0;
  size_t entries_ = 0;  // that rules want, each as often as it is wanted
  FollowedList list_;
  std::vector<Refusal> refusals_;
};

}  // namespace weir::control::flowspec
