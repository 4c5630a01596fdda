#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/base/loop/loop.h"
#include "control/lists/journal/journal.h"
#include "control/sources/fleet/channel.h"
#include "control/sources/followed/followed_list.h"

namespace weir::control {

class Daemon;
struct ChangeAnswer;

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
  // A rollback may have taken entries of the fleet away, or brought some back: reads the journal again.
  void went_back();
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
    uint64_t expires = kNever;  // Unix seconds, by this node's clock
    std::string comment;
  };
  using Entries = std::map<std::string, Wanted>;  // by text, as the fleet has it

  void find_unread();
  void read_page();
  void take_page(const std::string& list, const Result<std::vector<JournalEntry>>& page);
  // The one text of all that mean the same in this list. What is none stays as it is, and is refused later.
  std::string text_in(const std::string& list, const std::string& text) const;
  FollowedList& list_of(const std::string& name);
  void claim(const std::string& list, const std::string& text, const Wanted& wanted);
  void look_at_all();
  void go_on();
  void change(const std::string& list, const FollowedList::Batch& batch);
  void take_report(const std::string& list, const FollowedList::Batch& batch, const ChangeAnswer& report);
  void count();

  Loop& loop_;
  Daemon& daemon_;
  const std::function<void()> changed_;
  Mailbox mailbox_;
  std::map<std::string, FollowedList> lists_;  // by name; an entry of the fleet is a claim, by its text there
  std::map<std::string, Entries> whole_;       // while all of them come; by list
  // The journal is read while no change is made, and no change is made while it is read: a page may be read by another
  // thread, which sees only changes that were answered before it was asked for.
  bool is_whole_ = false, is_reading_ = false, is_changing_ = false;
  std::deque<std::string> unread_;  // lists whose entries of an earlier life are not read yet
  std::set<std::string> known_;     // lists that were ever in unread_
  std::string read_to_;             // of the first of unread_: the last text that was read
  uint64_t readings_ = 0;           // of the whole journal
  size_t n_told_ = 0;               // refused entries in the log
  int64_t heard_at_ = 0;            // revision of etcd's store that lists_ is of; 0: nothing was heard
  int64_t clock_;                   // seconds that the clock of the day is ahead of the one since the boot
  Loop::Source again_, read_again_;
  Counts counts_;
};

}  // namespace weir::control
