#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/fleet/channel.h"
#include "control/loop/loop.h"

namespace weir::control {

class Daemon;

// The entries of a fleet in the dynamic lists of one node: brings the journal to what the fleet has, a change at a
// time. Those of a list that the node does not have wait for a revision that brings it. Belongs to the loop.
class FleetEntries {
 public:
  // changed: what counts() tells is not as it was. The daemon runs a policy, and outlives it.
  FleetEntries(Loop& loop, Daemon& daemon, std::function<void()> changed);
  FleetEntries(const FleetEntries&) = delete;

  void take(const fleet::News& news);
  // The lists may be others now.
  void lists_changed();
  // Called every now and then: the clock may have jumped.
  void look_at_clock();

  struct Counts {
    uint64_t held = 0;     // by this node
    uint64_t refused = 0;  // they are no entries of their list, or there is no such list
    int64_t at = 0;        // the revision of etcd's store up to which all is done that can be
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Wanted {
    int64_t expires = 0;  // Unix seconds, by this node's clock; 0: never
    std::string comment;
  };
  using Entries = std::map<std::string, Wanted>;  // by text, as the journal has it

  void read_journal(const std::string& list, const std::string& after);
  void end_reading();
  // The one text of all that mean the same in this list. What is none stays as it is, and is refused later.
  std::string text_in(const std::string& list, const std::string& text) const;
  bool is_done(const std::string& list, const std::string& text) const;
  void look_at_all();
  void go_on();
  bool change(const std::string& list, const std::vector<std::string>& texts);
  void count();

  Loop& loop_;
  Daemon& daemon_;
  const std::function<void()> changed_;
  Mailbox mailbox_;
  std::map<std::string, Entries> wanted_, has_;           // by list
  std::map<std::string, std::set<std::string>> due_;      // that may differ in the two; by list
  std::map<std::string, std::set<std::string>> refused_;  // that are not tried again for a while; by list
  std::map<std::string, Entries> whole_;                  // while all of them come
  bool is_whole_ = false, is_journal_read_ = false, is_changing_ = false;
  int64_t heard_at_ = 0;  // revision of etcd's store that wanted_ is of; 0: nothing was heard
  int64_t clock_;         // seconds that the clock of the day is ahead of the one since the boot
  Loop::Source again_;
  Counts counts_;
};

}  // namespace weir::control
