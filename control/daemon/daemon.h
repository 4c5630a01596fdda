#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/diagnostic.h"
#include "common/paths.h"
#include "control/answer/explain.h"
#include "control/answer/parts.h"
#include "control/answer/summary.h"
#include "control/capture/capture.h"
#include "control/compile/compile.h"
#include "control/publish/generation.h"
#include "control/publish/in_force.h"
#include "control/publish/store.h"
#include "control/publish/targets/target.h"
#include "control/publish/targets/xdp_plane.h"

namespace weir::control {

// The generation that is published now.
struct Running {
  std::shared_ptr<const Publication> publication;
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
  std::vector<PhaseTime> phases;  // in order; `store` runs while targets work, so it overlaps `acknowledge`
  double total_ms = 0;
  int64_t at = 0;  // unix seconds, when it began
  uint64_t entries = 0, snapshot_bytes = 0;
  wire::Generation generation;         // the one that is published afterwards: after a failure, the old one
  std::vector<TargetOutcome> targets;  // empty when nothing was published
};

// All that controld is, without its API: the running generation, the state directory, one link per target, and the
// thread that reloads. Every method can be called from any thread; only reload() and bypass() wait for targets.
class Daemon {
 public:
  struct Options {
    std::string config;
    std::optional<std::string> state_dir;  // instead of the policy's
    std::vector<TargetSpec> targets;       // instead of the policy's
    std::string default_state_dir = weir::default_state_dir();
    std::string bpf_dir = xdp::kDefaultBpfDir;
    int acknowledge_ms = 10'000;  // how long reload and bypass wait for targets
    unsigned build_threads = 1;   // of large filters
    TargetTimes times;
  };

  // Reads, compiles and hands to the targets, without waiting for them. When the policy is bad: the last good one, and
  // last_reload() tells why; without a last good, an error (the diagnostics were printed to stderr).
  static Result<std::unique_ptr<Daemon>> start(Options options);
  ~Daemon();
  // Ends the reload thread, the links and every wait. The destructor does it too.
  void stop();

  // Compiles the policy again and publishes it. Reloads run one after the other; calls that come while one runs share
  // the next one.
  std::shared_ptr<const ReloadReport> reload();
  void request_reload();  // the same without waiting

  // To every target now, and to those that return later.
  Result<std::vector<TargetOutcome>> bypass(bool on);
  bool bypass_on() const { return bypass_on_; }

  // Takes XDP off the interface (empty: off all, also those that no target names), until a reload or the next start.
  // Returns the names of those that were attached.
  Result<std::vector<std::string>> detach(const std::string& interface);

  Result<Explanation> explain(const std::string& key) const;

  std::shared_ptr<const Running> running() const;
  std::shared_ptr<const ReloadReport> last_reload() const;
  std::vector<std::shared_ptr<TargetLink>> targets() const;
  CaptureState capture() const;
  const Options& options() const { return options_; }
  const std::string& state_dir() const { return store_.state_dir(); }

 private:
  Daemon(Options options, Store store, GenerationFile numbers);
  void run();
  std::shared_ptr<const ReloadReport> reload_once(int acknowledge_ms);
  void publish(std::shared_ptr<const Running> running);
  void set_targets(const std::vector<TargetSpec>& specs);
  std::shared_ptr<TargetLink> make_link(const TargetSpec& spec) const;
  void warn_of_left_over() const;
  void acknowledge(ReloadReport& report, Clock::time_point published, int acknowledge_ms);
  Result<void> publish_last_good();
  Result<void> keep_in_force(const std::vector<TargetSpec>& specs);

  const Options options_;
  Store store_;  // its files: the reload thread writes, explain reads, bypass has its own
  Capture capture_;
  GenerationFile numbers_;           // start, then the reload thread
  std::optional<InForce> in_force_;  // as on disk; the same
  const std::shared_ptr<XdpPlane> plane_;
  std::mutex bypass_mutex_;
  std::atomic<bool> bypass_on_ = false;

  mutable std::mutex mutex_;  // guards what follows; never held while waiting for anything else
  std::condition_variable wake_;
  std::condition_variable finished_;
  bool stopping_ = false;
  uint64_t asked_ = 0, begun_ = 0, done_ = 0;  // reloads
  std::shared_ptr<const Running> running_;
  std::shared_ptr<const ReloadReport> last_reload_;
  std::vector<std::shared_ptr<TargetLink>> targets_;
  std::optional<bool> wanted_bypass_;  // what links made later are told

  std::thread thread_;  // reloads
};

}  // namespace weir::control
