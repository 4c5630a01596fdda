#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "control/tell/answer/change.h"
#include "control/tell/answer/explain.h"
#include "control/tell/answer/list.h"
#include "control/tell/answer/stats.h"
#include "control/tell/answer/status.h"

// The page shows these facts: answers, and what repeated looks at the counters found.
namespace weir::control::page {

// ------------------------------------------------------------------------------------------------------------ looks

// The counters of all targets, looked at again and again: what the page draws.

// All in packets a second.
struct ListRate {
  std::string name;
  double matched = 0, dropped = 0, passed = 0, would_drop = 0;
};

struct TargetRate {
  std::string socket;
  double packets = 0, dropped = 0, lost = 0;
};

// What happened between two looks.
struct Rates {
  double at = 0;                                          // Unix seconds, of the later one
  double seconds = 0;                                     // between them
  double packets = 0, passed = 0, dropped = 0, lost = 0;  // a second
  double bits = 0;                                        // a second, of frames without FCS
  std::vector<TargetRate> targets;                        // that told something both times
  std::vector<ListRate> lists;                            // to which something happened

  const ListRate* list(const std::string& name) const;  // null: nothing happened to it
  const TargetRate* target(const std::string& socket) const;
};

// By the targets' own time stamps. Empty: no target told something both times, and was the same process both times.
std::optional<Rates> rates_between(const StatsAnswer& before, const StatsAnswer& after, double at);

class Looks {
 public:
  static constexpr double kLeast_s = 1.8;  // between two looks: whoever asks more often is told the last one
  static constexpr double kKeep_s = 300;
  static constexpr double kMost_s =
      600;  // between two looks that are compared: time stamps begin anew after 71 minutes

  bool is_due(double now) const { return !last_ || now - at_ >= kLeast_s || now < at_; }
  void add(const StatsAnswer& stats, double now);

  const StatsAnswer* last() const { return last_ ? &*last_ : nullptr; }
  const std::deque<Rates>& rates() const { return rates_; }  // rising in time
  const Rates* now() const { return rates_.empty() || rates_.back().at != at_ ? nullptr : &rates_.back(); }

 private:
  std::optional<StatsAnswer> last_;
  double at_ = 0;
  std::deque<Rates> rates_;
};

// ------------------------------------------------------------------------------------------------------------ facts

// What a visitor asked to be explained.
struct Asked {
  std::string key;
  std::optional<ExplainAnswer> answer;
  std::string error;  // why there is no answer
};

// All that the page shows. Before the first policy is compiled there is a status alone.
struct Facts {
  std::string host;  // name of the machine; may be empty
  double now = 0;    // Unix seconds
  StatusAnswer status;
  StatsAnswer stats;
  ListAnswer lists;
  FeedsAnswer feeds;
  HistoryAnswer history;
  std::string history_error;
  const Looks* looks = nullptr;  // null: none
  std::optional<Asked> asked;
};

}  // namespace weir::control::page
