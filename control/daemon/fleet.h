#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/confine/helpers.h"
#include "control/base/loop/loop.h"
#include "control/base/loop/worker.h"
#include "control/daemon/fleet_entries.h"
#include "control/lists/journal/change.h"
#include "control/policy/model/policy.h"
#include "control/sources/fleet/channel.h"
#include "control/sources/fleet/head.h"
#include "control/sources/fleet/pieces.h"
#include "control/sources/fleet/report.h"
#include "control/sources/fleet/revision.h"
#include "control/sources/fleet/store.h"

namespace weir::control {

class Daemon;

// A file on its way to this node: pieces of it may be here, in the file of the same name before it.
struct FileTaken {
  fleet::Pieces pieces;
  fleet::Older older;
};

// A revision on its way to this node.
struct RevisionTaken {
  uint64_t attempt = 0;  // each its own, also at the same revision
  uint64_t number = 0;
  fleet::Revision revision;
  std::deque<fleet::BlobFile> missing;
  std::shared_ptr<const FileTaken> file;  // the first of these, once its pieces are known
  bool is_reloading = false;              // it is controld's: nothing more is asked of etcd
  std::optional<fleet::Ask> ask;          // it is looked at, and not enforced
};

// One node of a fleet: follows the fleet's head by a process that speaks to etcd (control/sources/fleet/follower.h),
// takes the revision of its group as a reload of its files, keeps the fleet's entries in dynamic lists, and reports how
// it stands. Whatever etcd says or does not say, what is enforced stays enforced, and no earlier turn of the head is
// followed. Belongs to the loop.
class FleetNode {
 public:
  // helpers: that kFollowJob was given to. The daemon runs a policy, is a node of a fleet, and outlives it.
  FleetNode(Loop& loop, Daemon& daemon, const confine::Helpers& helpers);
  FleetNode(const FleetNode&) = delete;
  ~FleetNode();

  // What was added to a list on this node: when it was not the fleet, it may be told to all.
  void added_here(const Change& change, const std::string& list);
  // A rollback was published: the fleet's entries that it took away are added again.
  void went_back() { entries_.went_back(); }

 private:
  // The process.
  void start_follower();
  void hear();
  void lose_follower(const std::string& why);
  bool order(const fleet::Order& order);  // false: nobody takes it now
  void take(fleet::News& news);

  // Revisions, in the order of what happens.
  void take_head(const std::string& text);
  void follow(const fleet::Head& head);
  void begin_taking();
  void begin_with(uint64_t number);
  bool is_at(uint64_t attempt) const;
  bool is_at(uint64_t attempt, const std::string& digest) const;  // of the file that is next
  void ask_revision();
  void take_revision(const fleet::News& news);
  void ask_next_blob();
  void take_pieces(const fleet::News& news);
  void ask_bytes(const std::vector<bool>& is_wanted);
  void take_blob(const fleet::News& news);
  void keep_blob(const std::shared_ptr<const confine::Helper>& helper);
  void lay_out();
  void reload(const std::string& policy);
  void finish_taking(const std::string& error, bool is_final);

  // Questions: what a revision would do here.
  void take_ask(const std::string& text);
  void plan(const std::string& policy);
  void tell(const fleet::Ask& ask, fleet::Told told);

  // Reports.
  void report_soon();
  void report_now_and_then();
  void send_report();
  std::string state() const;
  void trouble(const std::string& text);
  void tell_daemon();

  Loop& loop_;
  Daemon& daemon_;
  const confine::Helpers& helpers_;
  const FleetSettings settings_;
  const std::shared_ptr<fleet::Disk> disk_;  // a thread of the daemon may write when this is gone
  Mailbox mailbox_;

  std::shared_ptr<const confine::Helper> helper_;  // the worker may still read its memory when it is gone
  Loop::Source heard_, again_;
  int pause_ms_;
  bool is_reporting_ = false;
  std::string trouble_;

  fleet::Followed followed_;
  fleet::Head head_;  // that is followed; turn 0: none was heard since the start
  std::optional<RevisionTaken> taking_;
  uint64_t attempts_ = 0;
  fleet::GroupAt refused_;  // that this node does not take, until its group is given something anew
  Loop::Source retry_;
  uint64_t tried_ = 0;               // the revision of the last attempt
  unsigned failures_ = 0;            // times in a row that it was compiled in vain
  std::optional<fleet::Ask> asked_;  // waits until nothing else is taken
  std::string told_;                 // id of the last question that was answered

  FleetEntries entries_;

  fleet::Report report_;
  Loop::Source report_due_, look_due_;
  bool is_report_due_ = false;
  Clock::time_point last_report_ = {};
  std::string last_told_;
  uint64_t last_packets_ = 0, last_dropped_ = 0;
  Clock::time_point last_look_ = {};
  struct Budget {
    Clock::time_point since = {};
    uint64_t used = 0;
    bool is_told = false;
  } budget_;  // of what is shared

  Worker worker_;  // last: ends before what it uses
};

}  // namespace weir::control
