#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/confine/system_calls.h"
#include "common/diagnostic.h"
#include "common/log/log.h"
#include "common/paths.h"
#include "common/progress.h"
#include "control/base/loop/callers.h"
#include "control/base/loop/loop.h"
#include "control/base/loop/waits.h"
#include "control/base/loop/worker.h"
#include "control/compile/compile.h"
#include "control/compile/preview/lists.h"
#include "control/compile/preview/radius.h"
#include "control/compile/preview/reservoir.h"
#include "control/daemon/intents.h"
#include "control/daemon/maker.h"
#include "control/daemon/pages.h"
#include "control/daemon/panic.h"
#include "control/daemon/shadow.h"
#include "control/enforce/capture/capture.h"
#include "control/enforce/past/archive.h"
#include "control/enforce/publish/generation.h"
#include "control/enforce/publish/history_files.h"
#include "control/enforce/publish/in_force.h"
#include "control/enforce/publish/store.h"
#include "control/enforce/rates/rate_watch.h"
#include "control/enforce/targets/kinds.h"
#include "control/enforce/targets/target.h"
#include "control/policy/read/feed_file.h"
#include "control/sources/fetch/fetcher.h"
#include "control/sources/fleet/store.h"
#include "control/sources/watch/feed_watch.h"
#include "control/tell/answer/economics.h"
#include "control/tell/answer/explain.h"
#include "control/tell/answer/status.h"
#include "control/tell/metrics/facts.h"

namespace weir::control {

// Daemon owns the generation that runs, the queue of intents, one link to each target, and the panic switch. Only the
// loop's thread calls it. Each slow call calls back once, also when controld stops. docs/architecture.md lists the
// threads.
class Daemon {
  static constexpr int kBuilderNice = 10;             // changes come first
  static constexpr uint32_t kTrafficPerSecond = 500;  // samples of a target

 public:
  struct Options {
    std::string config;
    std::optional<std::string> state_dir;  // instead of the policy's
    std::vector<TargetSpec> targets;       // instead of the policy's
    std::string default_state_dir = weir::default_state_dir();
    std::string bpf_dir = xdp::kDefaultBpfDir;
    std::string panic_socket;  // of the panic switch's own API; empty: none
    std::string place;         // of the file that tells controlctl whom to speak to without us; empty: none
    std::optional<gid_t> admin_group = std::nullopt;  // whose members may give orders to the panic switch
    int acknowledge_ms = 10'000;                      // how long reload and bypass wait for targets
    unsigned build_threads = 1;                       // of large filters
    // The reaction to a system call that controld never makes. Empty: this process keeps all its rights (tests).
    std::optional<confine::Seccomp> seccomp;
    const confine::Helpers* parsers = nullptr;  // of the policy file and of feeds; null: this process parses them
    bool watch_feeds = false;                   // a feed that changes is read by itself
    bool fetches = false;                       // feeds with an url, by helpers of `parsers`, which know kFetchJob
    bool serves_metrics = false;                // sockets of TCP can be made
    bool guards_host = false;                   // what this machine itself needs is cut out of feeds of drop lists
    bool allow_older = false;  // targets take what is published also when they enforce something newer of its epoch
    TargetTimes times;
    // Called as soon as there is something to ask, before the first policy is compiled: the API opens.
    std::function<Result<void>(Daemon&)> opened = {};
    // A policy was taken: metrics() may be another place now.
    std::function<void()> policy_taken = {};
    // Entries were added to a list, by whomever: a fleet may be told.
    std::function<void(const Change& change, const std::string& list)> added = {};
    // A rollback was published: entries that were added may be gone, or be there again.
    std::function<void()> went_back = {};
    // Called once, when the last good is_settled() while the first policy is compiled.
    std::function<void()> enforcing = {};
  };

  // Publishes the last good, then reads, compiles and hands to the targets, without waiting for them; runs the loop
  // meanwhile. When the policy is bad the last good stays, and last_reload() tells why; without a last good, an error
  // (the diagnostics were printed to stderr). The panic switch works from the beginning.
  static Result<std::unique_ptr<Daemon>> start(Loop& loop, Options options);
  Daemon(const Daemon&) = delete;

  // Something was published, and every target enforces it or is not there.
  bool is_settled() const;

  // Ends every wait, so that each caller is answered. When is_idle(), captures have their last samples, and the last
  // good is on disk.
  void stop();
  bool is_stopping() const { return intents_.is_stopped(); }
  bool is_idle() const { return capture_.is_ended() && !is_saving_; }
  // A thread is at something that nobody can end: a policy that is compiled, a disk that does not answer.
  bool is_busy() {
    return maker_thread_.is_busy() || reader_.is_busy() || builder_.is_busy() || planner_.is_busy() ||
           historian_.is_busy() || panic_->is_busy();
  }

  // Reads the policy file, compiles it and publishes it. Reloads run one after the other; calls that come while one
  // runs share the next one. Entries are changed while a policy is read. Feeds that change cause reloads by themselves,
  // which keep to the policy that was taken last, and publish nothing when it would be the same.
  void reload(Reloaded done, Wish wish = {}) { intents_.reload(std::move(wish), std::move(done)); }
  // Compiles a candidate beside what runs, and tells what it would change. Nothing is published.
  struct Candidate {
    std::optional<std::string> text;                  // of a policy; empty: that of the policy that runs
    std::string path;                                 // of it: relative feeds begin there; empty: the policy's own
    std::map<std::string, std::string> instead = {};  // by list: a file that is read instead of its feed
    std::map<std::string, std::string> fetched = {};  // by list: an url that is fetched, and read instead of its feed
  };
  void plan(Candidate candidate, std::function<void(const PlanAnswer&)> done);
  // Frames of the recent traffic that are kept.
  const Reservoir& reservoir() const { return reservoir_; }
  std::shared_ptr<const SeenTraffic> recent_traffic() const { return reservoir_.recent(unix_now_ns()); }
  // The generation that waits for a confirmation stays. Error: none waits, or its time is over.
  void confirm(std::function<void(const Result<wire::Generation>& stays)> done);
  // Publishes the lists of this generation again, as they were then: those of its policy, and what was added to them.
  // Entries that change from now on stay changed. Feeds are not read until the next reload.
  void rollback(uint64_t number, const Wish& wish, Reloaded done) { intents_.rollback(number, wish, std::move(done)); }
  // The same lists once more, from the beginning: a whole snapshot with another secret. No file is read that has not
  // changed.
  void rebuild(const Wish& wish, Reloaded done) { intents_.rebuild(wish, std::move(done)); }
  // The newest publications.
  void history(size_t most, std::function<void(const Result<std::vector<HistoryRow>>& past)> done);
  // A question about what is kept of former generations, and about the journal: the thread of such questions answers it
  // when its turn comes; then done(). Error: it was not done by the deadline. has_gone: whoever asks.
  using AboutPast = std::function<void(Archive&, const Result<Journal*>&, const GivenUp& is_given_up)>;
  void with_archive(AboutPast work, std::shared_ptr<const std::atomic<bool>> has_gone, Clock::time_point deadline,
                    std::function<void(const Result<void>& is_done)> done);
  // The overlaps of a generation's lists, and the part of its base that each takes.
  struct Compared {
    wire::Generation generation;
    uint64_t at = 0;          // Unix seconds
    uint32_t until = kNever;  // it holds
    double took_ms = 0;
    Overlap overlap;
    SnapshotCosts costs;
  };
  struct Comparison {
    std::shared_ptr<const Running> of;
    std::shared_ptr<const Compared> lists;
    std::vector<ListHits> hits;  // by list, of the recent traffic
    uint64_t samples = 0;
  };
  // Compares the lists of the generation that runs, in the background: once a generation, and again when an entry has
  // ended since. Callers meanwhile share the answer. Error: the entries are not known.
  using Comparing = std::function<void(const Result<Comparison>& comparison)>;
  void compare_lists(Comparing done);
  // A sentence for people: the confirmation or reload that controld waits for; empty: none.
  std::string notice() const { return intents_.notice(); }
  // The same, and the feed of this list is taken as it is then, whatever its guard says. Error: no list with a feed is
  // called so.
  Result<void> accept_feed(const std::string& list, Wish wish, Reloaded done) {
    return intents_.accept_feed(list, std::move(wish), std::move(done));
  }

  // In the journal, then published, then acknowledged by every target that is there. Changes that come while one is
  // made, or a policy is compiled, share the next publication; each is done as a whole, or not at all.
  void change(Change change, Changed done) { intents_.change(std::move(change), std::move(done)); }

  Shadow& shadow() { return shadow_; }
  // Publishes the candidate's bytes, and on them what has changed since. As a reload of its file would.
  void promote_shadow(const Wish& wish, Reloaded done);

  // The lists of the generation with this number, for somebody who reads them page by page; 0: of the one that runs.
  // Null: it is not kept any more.
  const PagedBooks::Kept* pages_of(uint64_t number) {
    return pages_.book(number, running_->publication->generation, running_->book);
  }
  // The added entries of a list behind this text, in the order of their texts, with all changes answered before.
  using Added = std::function<void(const Result<std::vector<JournalEntry>>& added)>;
  void read_added(const std::string& list, const std::string& after, size_t most, Added done);

  // To every target now, and to those that return later.
  void bypass(bool on, std::function<void(const PanicSwitch::Report&)> done);
  bool bypass_on() const { return panic_->is_on(); }

  // Takes XDP off the interface (empty: off all, also those that no target names), until a reload or the next start.
  // Tells the names of those that were attached.
  void detach(const std::string& interface, std::function<void(XdpPlane::Names)> done);

  // Calls back when every target has told afresh, or is away, or at the deadline. fresh: by target.
  using Refreshed = std::vector<std::pair<std::shared_ptr<const TargetLink>, bool>>;
  enum class Counters { status, stats, stats_and_telemetry };
  void refresh(Counters counters, Clock::time_point deadline, std::function<void(const Refreshed&)> done);

  std::shared_ptr<const Running> running() const { return running_; }
  // The phase of the reload that runs; empty: none runs.
  const char* reload_phase() const { return progress_.phase; }
  const Progress& progress() const { return progress_; }
  std::shared_ptr<const ReloadAnswer> last_reload() const { return last_reload_; }
  const std::vector<std::shared_ptr<TargetLink>>& targets() const { return targets_; }
  CaptureState capture() const { return capture_.state(); }
  // Samples of what is dropped. follow: they are taken for some seconds from now on, also when the policy wants none,
  // and done() comes when there are some behind number `after`, or within a second; else at once.
  const Capture& samples() const { return capture_; }
  void read_drops(uint64_t after, bool follow, std::function<void()> done);
  const Fetcher& fetcher() const { return fetcher_; }
  // Asks for the feed of this list now; what it says is enforced by itself. Error: no list with an url is called so.
  Result<void> fetch_feed(const std::string& list, Fetcher::Done done);
  const Options& options() const { return options_; }
  // Whose node this is, as its file said at the start; empty: nobody's.
  const std::optional<FleetSettings>& fleet() const { return fleet_; }
  // As it told last.
  const std::optional<FleetStanding>& fleet_standing() const { return fleet_standing_; }
  void tell_fleet_standing(FleetStanding standing) { fleet_standing_ = std::move(standing); }
  const std::string& state_dir() const { return store_.state_dir(); }
  // Why what runs, or bypass, would not outlive a restart of controld; empty: both would.
  std::string disk_error() const { return disk_error_.empty() ? panic_->disk_error() : disk_error_; }

  // The rates of false positives at each target, beside the predicted ones.
  const RateWatch& rates() const { return rates_; }

  // Since it started.
  const metrics::Tally& tally() const { return tally_; }
  // The policy's place for metrics; before the first policy is published, as far as its file could be read.
  const MetricsSettings& metrics() const { return metrics_; }
  // The place in use.
  const MetricsDetails& metrics_place() const { return metrics_place_; }
  void note(MetricsDetails place) { metrics_place_ = std::move(place); }

 private:
  Daemon(Loop& loop, Options options, Store store, GenerationFile numbers, std::optional<Journal> journal,
         std::optional<InForce> in_force);
  Result<void> join(const FleetSettings& fleet);
  // How a policy is read, on the reader or the planner.
  FeedHistory history_of(const Book* before, bool is_ours) const;
  static Result<void> give_up_rights(const Options& options, const std::optional<std::vector<TargetSpec>>& named,
                                     const std::optional<InForce>& in_force);
  Result<void> begin(realtime::Starter& urgent, const std::optional<InForce>& in_force,
                     std::optional<std::vector<TargetSpec>> named);
  void read_former(ReloadJob& job);                                // reader
  uint64_t base_of(const Rollback& back, Journal& journal) const;  // reader
  void begin_with_notes();
  void await_confirmation(const ReloadJob& job);
  void end_confirmation_in(std::chrono::seconds seconds);
  void watch_feeds();
  void begin_reading(const std::shared_ptr<ReloadJob>& job);
  void end_reading(const std::shared_ptr<ReloadJob>& job);
  void begin_making(const std::shared_ptr<ReloadJob>& job);
  void read(ReloadJob& job, const FeedHistory& history);             // reader
  Result<void> fetch(const Running& running, Candidate& candidate);  // planner
  Result<void> plan(Candidate candidate, const Running& running, const SeenTraffic& traffic,
                    PlanAnswer& answer);  // planner
  void publish_reload(const std::shared_ptr<ReloadJob>& job);
  void end_same(const std::shared_ptr<ReloadJob>& job);
  void await_targets(const std::shared_ptr<ReloadJob>& job);
  void keep_again();
  void take_ahead(const std::string& target, wire::Generation seen);
  void acknowledge(ReloadJob& job);
  std::vector<TargetOutcome> outcomes(wire::Generation generation, Clock::time_point& last) const;
  void count(const ReloadJob& job);
  void finish_reload(ReloadJob& job);
  void follow_feeds();
  void begin_changes(const std::shared_ptr<ChangeBatch>& batch);
  void publish_changes(const std::shared_ptr<ChangeBatch>& batch);
  static log::Fields told_of(const ChangeBatch& batch);
  void compact_when_due();
  void keep_change(bool is_new_base, const Result<void>& saved);
  void answer_when_acknowledged(const std::shared_ptr<ChangeBatch>& batch, wire::Generation generation);
  void answer_changes(ChangeBatch& batch, wire::Generation generation);
  std::string why_list_drops_nothing(const std::string& name) const;
  void publish(std::shared_ptr<const Running> running);
  // Logs the one line about the latest publication, with its cause.
  void tell_published(const std::string& cause, log::Fields more = {}, const char* event = "published") const;
  void set_targets(const std::vector<TargetSpec>& specs);
  std::vector<TargetSpec> specs() const;  // of the targets
  std::shared_ptr<TargetLink> make_link(const TargetSpec& spec);
  void take_confirmation(const std::string& target, bool on);
  void take_probes(const std::string& target, const wire::Probes& probes);
  void warn_of_left_over() const;
  std::shared_ptr<const Book> book_of(wire::Generation generation) const;
  void check_waits();

  Loop& loop_;
  const Options options_;
  const std::string config_;  // absolute
  std::optional<FleetSettings> fleet_;
  std::optional<FleetStanding> fleet_standing_;
  Store store_;  // its files: the maker writes, bypass has its own
  Mailbox mailbox_;
  Waits waits_;
  bool is_check_posted_ = false;
  Capture capture_;
  Reservoir reservoir_;
  bool traffic_wanted_ = false;  // for the reservoir
  Planes planes_;
  std::unique_ptr<PanicSwitch> panic_;

  Intents intents_;
  uint64_t told_reload_ = 0;  // serial of last_reload_
  Progress progress_;         // of the reload that runs: the reader's, the maker's, then the loop's
  Maker maker_;               // its thread's
  Callers callers_;           // of other threads
  Loop::Source confirm_timer_;
  PagedBooks pages_{loop_};
  Shadow shadow_;
  std::string last_told_;                    // warnings of the last reload
  std::shared_ptr<const Book> book_before_;  // of the last good, until a policy is compiled; null: there is none
  std::shared_ptr<const Running> running_;
  std::shared_ptr<const ReloadAnswer> last_reload_;
  std::vector<std::shared_ptr<TargetLink>> targets_;
  std::shared_ptr<const Compared> compared_;  // the last time
  std::vector<Comparing> comparing_;          // who waits for the next one
  std::string disk_error_;
  metrics::Tally tally_;
  RateWatch rates_;
  MetricsSettings metrics_;
  MetricsDetails metrics_place_;
  Loop::Source book_due_;             // keep_book() of what changes of the journal made
  Loop::Source save_due_;             // keep_change() of the same
  unsigned saves_ = 0;                // keep_change() under way
  bool is_saving_ = false;            // the last time
  Loop::Source again_;                // keep_again()
  Clock::time_point next_jump_ = {};  // take_ahead() is heard again

  Archive archive_;                   // the historian's
  std::unique_ptr<FeedWatch> watch_;  // null: feeds are not watched
  Fetcher fetcher_;
  Worker maker_thread_;           // the last ones: they end before what they use
  Worker reader_;                 // of policies and their feeds: it may wait for helpers and for servers
  Worker builder_{kBuilderNice};  // of new bases, while the maker goes on
  Worker planner_{kBuilderNice};  // of candidates: reads them, as the reader does
  Worker historian_;              // of questions about the past; not nice: changes wait for a page of one
};

}  // namespace weir::control
