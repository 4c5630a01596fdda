#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "control/connect/dynamic_list.h"
#include "control/ctl/adapters.h"
#include "control/sources/flowspec/rules.h"
#include "control/tell/answer/list.h"

namespace weir::control::ctl {

struct FlowspecSettings {
  std::string socket;    // of controld
  std::string peer;      // its address, as comments of entries name it
  std::string list;      // that takes the entries; empty: the one that is dynamic
  std::string announce;  // the list whose entries are announced; empty: none
  uint32_t stale_s = 600;
  uint32_t every_s = 10;  // how often the list that is announced is read
  flowspec::RuleTable::Limits limits;
  bool tells_json = false;  // a line on stdout for each rule that is refused
};

// Brings what a peer announces into a list of controld, and what another list holds to whom it is announced. Its thread
// asks controld, which may take its time; whoever has the session talks to the table.
class FlowspecList {
 public:
  // announced: other rules are to be announced; called by the thread.
  FlowspecList(FlowspecSettings settings, std::function<void()> announced);
  ~FlowspecList();
  FlowspecList(const FlowspecList&) = delete;

  // Looks for the lists. Error: why they will not do, or that controld cannot be reached.
  Result<void> find();
  bool is_reached() const { return controld_.has_answered(); }
  const FlowspecSettings& settings() const { return settings_; }
  void start();
  // The entries go by themselves from now on, unless the peer comes back in time.
  void stop();

  // f(table), alone with it. What it changed is on its way.
  template <class F>
  void change(F f) {
    const std::lock_guard lock(mutex_);
    f(table_);
    tell_refusals();
    is_changed_ = true;
    wake_.notify_one();
  }
  // ending: there is no session. filling: the peer says what it has. whole: it has said all.
  using Phase = FollowedList::Phase;
  void set_phase(Phase phase);

  std::set<flowspec::RuleKey> announced();
  flowspec::RuleTable::Counts counts();

 private:
  void run();
  void step();
  void tell_refusals();
  bool look();
  bool follow();
  bool change_list(FollowedList::Batch batch);
  void read_announced();
  void say_error(std::string& last, const char* what, const std::string& error) const;
  std::string comment_of(const std::string& rule) const;

  FlowspecSettings settings_;
  const std::function<void()> on_announced_;
  const std::string prefix_;  // of the comments of this peer's entries
  const DynamicLists controld_;
  uint8_t match_ = 0;            // of the list
  FollowedList::Limits limits_;  // of the list
  Phase phase_ = Phase::ending;  // of whoever has the session
  std::thread thread_;

  // Of the thread alone.
  uint8_t announced_match_ = 0;  // of the list that is announced
  unsigned looks_ = 0;
  wire::Generation looked_at_;
  std::vector<std::string> exported_;
  Clock::time_point next_look_, next_announced_;
  std::string last_error_, last_announce_error_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  flowspec::RuleTable table_;
  bool is_changed_ = false, stopping_ = false;
  std::set<flowspec::RuleKey> announced_;
};

}  // namespace weir::control::ctl
