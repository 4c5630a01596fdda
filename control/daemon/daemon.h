#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/confine/system_calls.h"
#include "common/diagnostic.h"
#include "common/paths.h"
#include "control/answer/explain.h"
#include "control/answer/parts.h"
#include "control/answer/summary.h"
#include "control/book/difference.h"
#include "control/capture/capture.h"
#include "control/compile/compile.h"
#include "control/compile/reuse.h"
#include "control/daemon/panic.h"
#include "control/loop/loop.h"
#include "control/loop/waits.h"
#include "control/loop/worker.h"
#include "control/publish/generation.h"
#include "control/publish/in_force.h"
#include "control/publish/open_snapshot.h"
#include "control/publish/store.h"
#include "control/publish/targets/kinds.h"
#include "control/publish/targets/target.h"
#include "control/read/feed_file.h"

namespace weir::control {

// The generation that is published now.
struct Running {
  std::shared_ptr<const Publication> publication;
  std::shared_ptr<const OpenSnapshot> snapshot;  // to look into the publication
  std::shared_ptr<const Book> book;              // from_last_good: empty when it is not on disk
  std::optional<InputsDigest> inputs;            // of the snapshot; empty: not known, or it depends on the time
  std::vector<ListSummary> lists;
  CompileReport report;       // from_last_good: phases and reasons are empty
  uint64_t memory_limit = 0;  // filter.memory in bytes; 0: not known (last good)
  int64_t published_at = 0;   // unix seconds
  bool from_last_good = false;
};

struct ReloadReport {
  bool ok = false;    // published, stored, and acknowledged by every target
  std::string error;  // why not; empty when diagnostics say it
  Diagnostics diagnostics;
  std::vector<PhaseTime> phases;  // in order
  double total_ms = 0;
  int64_t at = 0;  // unix seconds, when it began
  uint64_t entries = 0, snapshot_bytes = 0;
  std::vector<RefusedFeed> refused;    // their lists keep what they had
  std::vector<ListChange> changes;     // since the generation before
  wire::Generation generation;         // the one that is published afterwards: after a failure, the old one
  std::vector<TargetOutcome> targets;  // empty when nothing was published
};

// All that controld is, without its API: the running generation, the state directory, one link per target, the panic
// switch. It lives on a loop, whose thread alone may call it; only reading, compiling and storing happen on the worker.
// What takes time calls back.
class Daemon {
 public:
  struct Options {
    std::string config;
    std::optional<std::string> state_dir;  // instead of the policy's
    std::vector<TargetSpec> targets;       // instead of the policy's
    std::string default_state_dir = weir::default_state_dir();
    std::string bpf_dir = xdp::kDefaultBpfDir;
    std::string panic_socket;     // of the panic switch's own API; empty: none
    std::string place;            // of the file that tells controlctl whom to speak to without us; empty: none
    int acknowledge_ms = 10'000;  // how long reload and bypass wait for targets
    unsigned build_threads = 1;   // of large filters
    // What meets a system call that controld never makes. Empty: this process keeps all its rights (tests).
    std::optional<confine::Seccomp> seccomp;
    const confine::Helpers* parsers = nullptr;  // of the policy file and of feeds; null: this process parses them
    bool allow_older = false;  // targets take what is published also when they enforce something newer of its epoch
    TargetTimes times;
    // Called as soon as there is something to ask, before the first policy is compiled: the API opens.
    std::function<Result<void>(Daemon&)> opened = {};
  };

  // Publishes the last good, then reads, compiles and hands to the targets, without waiting for them; runs the loop
  // meanwhile. When the policy is bad the last good stays, and last_reload() tells why; without a last good, an error
  // (the diagnostics were printed to stderr). The panic switch works from the beginning.
  static Result<std::unique_ptr<Daemon>> start(Loop& loop, Options options);
  Daemon(const Daemon&) = delete;

  // Ends every wait, so that whoever asked is answered. What captures still fetch is there when is_idle().
  void stop();
  bool is_idle() const { return capture_.is_ended(); }
  // A thread is at something that nobody can end: a policy that is compiled, a disk that does not answer.
  bool is_busy() { return worker_.is_busy() || panic_->is_busy(); }

  // Compiles the policy again and publishes it. Reloads run one after the other; calls that come while one runs share
  // the next one.
  using Reloaded = std::function<void(std::shared_ptr<const ReloadReport>)>;
  void reload(Reloaded done);
  // The same, and the feed of this list is taken as it is then, whatever its guard says. Error: no list with a feed is
  // called so.
  Result<void> accept_feed(const std::string& list, Reloaded done);

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
  // Of the reload that runs; empty: none does.
  const char* reload_phase() const { return phase_; }
  std::shared_ptr<const ReloadReport> last_reload() const { return last_reload_; }
  const std::vector<std::shared_ptr<TargetLink>>& targets() const { return targets_; }
  CaptureState capture() const;
  const Options& options() const { return options_; }
  const std::string& state_dir() const { return store_.state_dir(); }
  // Why what runs, or bypass, would not outlive a restart of controld; empty: both would.
  std::string disk_error() const { return disk_error_.empty() ? panic_->disk_error() : disk_error_; }

 private:
  // What the worker makes of the policy file.
  struct Prepared {
    std::shared_ptr<ReloadReport> report;
    std::shared_ptr<Running> next;       // null: it failed
    std::shared_ptr<const Book> before;  // the book of what ran; null: nothing did
    std::vector<TargetSpec> targets;
    std::optional<CaptureSettings> capture;
    Result<void> saved;  // the number and the last good
    Clock::time_point begin, published;
  };

  Daemon(Loop& loop, Options options, Store store, GenerationFile numbers);
  static Result<void> give_up_rights(const Options& options, const std::optional<std::vector<TargetSpec>>& named,
                                     const std::optional<InForce>& in_force);
  Result<void> begin(realtime::Starter& urgent, const std::optional<InForce>& in_force,
                     std::optional<std::vector<TargetSpec>> named);
  void begin_reload();
  std::shared_ptr<Prepared> prepare(const Running* old, const FeedHistory& history);                // worker
  void prepare(Prepared& prepared, const Running* old, const FeedHistory& history);                 // worker
  Result<Compiled> compile_or_copy(const Policy& policy, const Running* old, const Running& next);  // worker
  Result<void> keep(const Running& next, const std::vector<TargetSpec>& targets);                   // worker
  Result<void> keep_book(const Running& running);                                                   // worker
  Result<void> keep_in_force(const std::vector<TargetSpec>& targets);                               // worker
  void take_prepared(const std::shared_ptr<Prepared>& prepared);
  void take_kept(const std::shared_ptr<Prepared>& prepared);
  void keep_again();
  void take_ahead(const std::string& target, wire::Generation seen);
  void acknowledge(Prepared& prepared);
  void finish_reload(const Prepared& prepared);
  void publish(std::shared_ptr<const Running> running);
  void set_targets(const std::vector<TargetSpec>& specs);
  std::shared_ptr<TargetLink> make_link(const TargetSpec& spec);
  void take_confirmation(const std::string& target, bool on);
  void warn_of_left_over() const;
  Result<std::shared_ptr<const Running>> load_last_good() const;
  std::shared_ptr<const Book> last_good_book(wire::Generation generation) const;
  std::shared_ptr<const Book> book_of(wire::Generation generation) const;
  void check_waits();

  Loop& loop_;
  const Options options_;
  const std::string config_;  // absolute
  Store store_;               // its files: the worker writes, bypass has its own
  Mailbox mailbox_;
  Waits waits_;
  bool is_check_posted_ = false;
  Capture capture_;
  Planes planes_;
  std::unique_ptr<PanicSwitch> panic_;

  bool stopping_ = false;
  bool is_first_ = true;  // the reload that start() waits for does not wait for targets
  bool is_reloading_ = false;
  std::atomic<const char*> phase_ = "";  // the worker's, then the loop's
  std::vector<Reloaded> asking_, asking_for_next_;
  std::set<std::string> accepted_feeds_;     // by the next reload
  std::shared_ptr<const Book> book_before_;  // of the last good, until a policy is compiled; null: there is none
  std::shared_ptr<const Running> running_;
  std::shared_ptr<const ReloadReport> last_reload_;
  std::vector<std::shared_ptr<TargetLink>> targets_;
  std::optional<InForce> last_in_force_;  // as on disk at the start
  std::string disk_error_;
  Loop::Source again_;                // keep_again()
  Clock::time_point next_jump_ = {};  // take_ahead() is heard again

  // The worker's.
  GenerationFile numbers_;
  std::optional<InForce> in_force_;  // as on disk
  wire::Generation kept_;            // the last good on disk, of this process

  Worker worker_;  // last: ends before what it uses
};

}  // namespace weir::control
