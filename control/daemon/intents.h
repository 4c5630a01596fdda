#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/confine/system_calls.h"
#include "control/compile/preview/reservoir.h"
#include "control/daemon/running.h"
#include "control/daemon/shadow.h"
#include "control/lists/journal/journal.h"
#include "control/tell/answer/change.h"

// The queue of all that publishes: reloads, changes of entries, rollbacks, promotions, new bases.
namespace weir::control {

using Reloaded = std::function<void(std::shared_ptr<const ReloadAnswer>)>;
using Changed = std::function<void(const ChangeAnswer& answer)>;

// How a reload is asked for.
struct Wish {
  uint32_t uid = kNobody;  // who asks
  int32_t pid = 0;
  uint32_t confirm_s = 0;  // goes back by itself unless confirm() comes in time; 0: it stays
  std::string why = {};    // the cause; empty: that it is asked for
  bool is_forced = false;  // whatever the limits of `plan` say
  // The policy file that a fleet's node reads from now on, once this reload is published. Empty: it stays the same.
  std::string policy_file = {};
  // On the maker: it will be enforced, once this was done. Error: then it is not.
  std::function<Result<void>()> compiled = {};
};

// Lists of an older generation are published again; nothing is read but the history.
struct Rollback {
  uint64_t number = 0;  // of the generation
  // The added entries come back, too, but for those that changed after this generation. 0: they stay as they are.
  uint64_t added_up_to = 0;
  bool keeps_targets = false;       // targets, capture and metrics stay as they are
  std::vector<TargetSpec> targets;  // these are the targets; empty: those of the policy
};

// The reasons and the inputs of a reload.
struct ReloadCause {
  std::string text;
  Wish wish;
  std::shared_ptr<const std::string> policy_text;   // null: the policy file is read
  std::string policy_path = {};                     // of policy_text, or that is read; empty: the configured one
  std::set<std::string> changed_feeds = {};         // that it is about
  std::set<std::string> accepted_feeds = {};        // lists whose feed is taken as it is
  bool builds_all = false;                          // a whole snapshot is built, also when nothing has changed
  std::optional<Rollback> back = {};                // this, and no policy
  std::shared_ptr<const Shadowing> promoted = {};   // its candidate is published, and its text is read
  std::shared_ptr<const SeenTraffic> traffic = {};  // that the limits are held to; null: none
  std::vector<Reloaded> asking = {};                // who is told of it; the loop's
};

// One reload: the reader reads the policy, then the maker makes a publication of it.
struct ReloadJob {
  enum class Stage : uint8_t { reading, read, making };
  Stage stage = Stage::reading;  // the queue's
  uint64_t serial = 0;           // rises from reload to reload
  ReloadCause cause;
  std::shared_ptr<ReloadAnswer> answer = std::make_shared<ReloadAnswer>();
  // Nobody wants it any more: it ends its waits for the network.
  std::shared_ptr<std::atomic<bool>> is_given_up = std::make_shared<std::atomic<bool>>(false);
  Clock::time_point begin, published;

  // The reader fills these.
  std::optional<Policy> policy;  // empty: it failed
  uint64_t back_base = 0;        // of cause.back: the generation whose book comes back
  Journal::WayBack way_back;     // of cause.back with added_up_to

  // The maker fills these.
  std::shared_ptr<Running> next;       // null: it failed
  bool is_same = false;                // what next enforces is what runs: nothing is published
  uint64_t before_base = 0;            // Running::base of what ran
  std::shared_ptr<const Book> before;  // the book of what ran; null: nothing did
  std::vector<TargetSpec> targets;
  std::optional<CaptureSettings> capture;
  MetricsSettings metrics;
  PlanSettings plan;
  Result<void> saved;  // the number and the last good
};

// Changes of entries that share a publication.
struct ChangeBatch {
  struct Job {
    Change change;
    Clock::time_point begin;
    ChangeAnswer answer;
  };
  std::vector<Job> jobs;
  std::vector<Changed> changed;      // who is told of each job; the loop's
  std::shared_ptr<const Base> base;  // a new one, for them to stand on; null: what runs has the right one

  // The maker fills these.
  std::shared_ptr<Running> next;    // null: nothing was to be published
  bool has_to_be_retried = false;   // together they cannot be published: one by one
  std::string cause;                // of what is published
  std::vector<ListChange> changes;  // of the lists
  Result<void> saved;               // the number and the last good
  Clock::time_point published;
};

// The queue chooses the next policy to read and the next publication to make. One policy is read at a time, and the
// maker makes one publication at a time. Reloads that wait are merged, and so are changes; both keep the order of
// asking. Changes are made while a policy is read. The queue answers each caller whose order does not begin; the owner
// answers the others by answer() and ChangeBatch::changed. The loop's thread alone calls it. It starts no thread and no
// timer, so that a test can draw random orders for it.
class Intents {
 public:
  // The queue asks the first three, and begins the others. The owner returns at once, and reports the end of a job by
  // the call that is named.
  struct Owner {
    std::function<std::shared_ptr<const Running>()> running;  // null: nothing runs
    std::function<std::vector<TargetSpec>()> targets;
    std::function<bool(uint64_t base)> is_kept;                             // in the history
    std::function<void(const std::shared_ptr<ReloadJob>& job)> read;        // was_read(), or end_reload()
    std::function<void(const std::shared_ptr<ReloadJob>& job)> make;        // end_reload()
    std::function<void(const std::shared_ptr<ChangeBatch>& batch)> change;  // end_changes()
    std::function<void(const ReloadJob& job)> given_up;                     // nobody waits for its reading
  };
  explicit Intents(Owner owner) : owner_(std::move(owner)) {}
  Intents(const Intents&) = delete;

  // The reload of the start, before which no change is made. back: it publishes this generation again.
  void start(std::optional<Rollback> back, std::string why);
  // Reads the policy file again. Calls that come while a reload runs share the next one.
  void reload(Wish wish, Reloaded done);
  // The same lists in a whole new snapshot with another secret.
  void rebuild(const Wish& wish, Reloaded done);
  // The next reload takes the feed of this list as it is, whatever its guard says. Error: no list with a feed is called
  // so.
  Result<void> accept_feed(const std::string& list, Wish wish, Reloaded done);
  // These files changed: the policy that runs is read again, with them.
  void reread_feeds(const std::vector<std::string>& paths);
  // Gives up a reload that is still reading.
  void rollback(uint64_t number, const Wish& wish, Reloaded done);
  // shadow: whose candidate is published.
  void promote(const std::shared_ptr<const Shadowing>& shadow, const Wish& wish, Reloaded done);
  void change(Change change, Changed done);

  // A new base is wanted; false: one is being built already.
  bool begin_base();
  // It is built: the next change stands on it, and one without entries is made for it. Null: it failed.
  void take_base(std::shared_ptr<const Base> base);

  // The policy of the job was read, or job->policy is empty: then end_reload() follows.
  void was_read(const std::shared_ptr<ReloadJob>& job);
  // Nobody waits for it: it was given up, or the queue has stopped.
  bool is_given_up(const ReloadJob& job) const { return is_stopped_ || reloading_.get() != &job; }
  // The job's generation runs now. True: it waits for a confirmation, whose time begins.
  bool was_published(const ReloadJob& job);
  // It is on disk, or failed: the next one may begin.
  void end_reload(const std::shared_ptr<ReloadJob>& job);
  // Tells its callers.
  void answer(ReloadJob& job);
  // The batch was published, or failed; false: it is tried again, one by one.
  bool end_changes(const std::shared_ptr<ChangeBatch>& batch);
  // Begins what can begin.
  void begin_next();

  // A generation that goes back by itself unless somebody confirms it.
  struct Unconfirmed {
    uint64_t base;  // to go back to
    int64_t until;  // Unix seconds
    uint32_t seconds;
    bool is_over = false;  // nobody confirmed in time
    bool is_due = false;   // the way back is to begin
  };
  const std::optional<Unconfirmed>& unconfirmed() const { return unconfirmed_; }
  // It stays. Not when its time is over.
  void confirm();
  // Its time is over, or the way back failed some time ago: it begins.
  void end_confirmation();
  // A sentence for people: the confirmation or reload that the queue waits for; empty: none.
  std::string notice() const;

  // The first reload is not answered yet.
  bool is_first() const { return is_first_; }
  bool is_reloading() const { return reloading_ != nullptr; }
  // The file that a reload reads; empty: the configured one.
  void set_policy_file(std::string path) { policy_file_ = std::move(path); }

  // Begins nothing any more, and answers all that wait.
  void stop();
  bool is_stopped() const { return is_stopped_; }

  // The report of a reload that does not begin.
  std::shared_ptr<const ReloadAnswer> refused(std::string why) const;

 private:
  void begin_reload(ReloadCause cause);
  void begin_changes();
  static ReloadCause cause_of(Rollback back, std::string why);
  void refuse_waiting(const std::string& why);
  ReloadCause next_cause();

  Owner owner_;
  bool is_stopped_ = false;
  bool is_first_ = true;

  // Reloads that wait, merged.
  struct Waiting {
    bool reads_policy = false;  // not only feeds
    bool builds_all = false;
    Wish wish;
    std::set<std::string> accepted_feeds;
    std::vector<Reloaded> asking;
  };
  Waiting waiting_;
  std::set<std::string> changed_feeds_;   // apart: they wait for a confirmation, and outlive what is refused
  std::shared_ptr<ReloadJob> reloading_;  // until it failed, or is published and on disk; null: none
  uint64_t reloads_ = 0;                  // serial of the last one that began

  std::vector<ChangeBatch::Job> changes_;   // that wait
  std::vector<Changed> changed_;            // who is told of each
  bool one_by_one_ = false;                 // they do not share a publication
  std::shared_ptr<ChangeBatch> changing_;   // that is made now
  std::shared_ptr<const Base> built_base_;  // it waits
  bool is_base_wanted_ = false;             // it is built, or waits

  bool is_making_ = false;  // the maker has a reload, or changes
  std::string policy_file_;

  // Feeds are not read after a rollback, nor before a confirmation.
  uint64_t rolled_back_to_ = 0;  // its base; 0: none
  std::optional<Unconfirmed> unconfirmed_;
};

}  // namespace weir::control
