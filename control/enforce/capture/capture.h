#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/base/loop/loop.h"
#include "control/enforce/capture/capture_files.h"
#include "control/enforce/capture/capture_state.h"
#include "control/enforce/capture/drop_log.h"
#include "control/enforce/capture/pace.h"
#include "control/enforce/capture/sample_source.h"
#include "control/policy/model/capture.h"
#include "control/policy/model/list.h"
#include "control/policy/model/target.h"
#include "control/policy/read/frame_filter.h"

namespace weir::control {

// Samples of what is dropped: fetches them from the targets, names the entry that dropped each, keeps the newest in a
// log, and writes them to files where the policy wants that. Where it does not, they are fetched while somebody
// follows. Part of a loop. Files are written here, a megabyte a second at most (kSearchShare and the limits of the
// settings); a disk that hangs holds the loop, but not the panic switch.
class Capture {
 public:
  using Books = std::function<std::shared_ptr<const Book>(wire::Generation)>;
  // Makes a connection to a target. Calls back on the loop, at once or later.
  using Connect = std::function<void(const TargetSpec&, std::function<void(Result<Fd>)> done)>;
  struct Surroundings {
    Books books;  // that of a generation, as long as it runs; null: not known
    Connect connect;
    std::function<void()> logged = {};  // something came into the log
  };
  Capture(Loop& loop, std::string state_dir, Surroundings surroundings);
  Capture(const Capture&) = delete;

  // From now on; settings empty: no files. Files that are written end when anything changes, after what the targets
  // still hold was fetched.
  void configure(std::optional<CaptureSettings> settings, std::vector<TargetSpec> targets);
  // Somebody reads the log, and wants what is dropped to come into it for some seconds from now on.
  void follow();
  // This generation runs.
  void published(wire::Generation generation);
  // Off for good; when is_ended(), what targets still held was written.
  void stop();
  bool is_ended() const { return !sampling_; }

  CaptureState state() const;
  const DropLog& log() const { return log_; }
  DropCounts log_counts() const;
  bool is_sampling() const { return sampling_.has_value(); }

 private:
  struct Known {  // where the entries of a generation were written
    wire::Generation generation;
    std::shared_ptr<const Book> book;
  };
  struct Waiting {
    wire::SampledFrame frame;
    uint32_t source;
    Clock::time_point since;
    bool to_files;  // else for the log alone
  };
  struct FromSource {
    std::unique_ptr<SampleSource> source;
    Loop::Source readable;  // while an answer is awaited
    uint64_t limited = 0, filtered = 0, accepted = 0;
    uint64_t log_limited = 0;  // of those that are for the log alone
    Pace pace;                 // while nobody named a share
    uint64_t paced = 0;        // its samples up to then
    Clock::time_point paced_at;
    std::string told_error;  // logged already
  };
  // How targets sample, and whether to files.
  struct Sampling {
    CaptureSettings settings;
    bool to_files = false;
    bool operator==(const Sampling&) const = default;
  };
  struct Wish {
    std::optional<Sampling> sampling;
    std::vector<TargetSpec> targets;
  };

  void decide();
  void turn();
  void arm();
  void begin(const Sampling& sampling, const std::vector<TargetSpec>& targets);
  void begin_files(const CaptureSettings& settings);
  void begin_end();
  void end();
  void end_sampling();
  void learn(wire::Generation generation);
  void ask(Clock::time_point now);
  Clock::time_point due() const;
  void receive(uint32_t source);
  void keep_pace(FromSource& from);
  bool is_ready(const Waiting& waiting, Clock::time_point now) const;
  void hand_out(Clock::time_point now, bool all);
  const Known* known(wire::Generation generation) const;
  bool within_limit(const Waiting& waiting);
  void add_counts(const FromSource& from, CaptureCounts& counts, DropCounts& of_log) const;
  void log_errors();

  const std::string state_dir_;
  const Surroundings surroundings_;
  Loop& loop_;
  Loop::Source timer_;
  std::optional<CaptureSettings> policy_;  // what it wants
  std::vector<TargetSpec> policy_targets_;
  std::optional<Clock::time_point> followed_until_;
  bool is_stopped_ = false;
  std::optional<Wish> wish_;                 // what comes after what is ending
  std::optional<Clock::time_point> end_at_;  // ending: not later
  std::string told_error_;                   // logged already
  std::optional<Sampling> sampling_;
  std::vector<TargetSpec> targets_;
  std::string refused_;  // why no files are written although the policy wants them
  std::optional<FrameFilter> filter_;
  std::vector<FromSource> sources_;
  std::unique_ptr<CaptureFiles> files_;  // null: nobody wants any
  wire::Generation published_;
  std::deque<Known> known_;  // newest last
  std::vector<Waiting> waiting_;
  Clock::time_point next_hand_out_, next_flush_;
  struct Second {
    uint64_t number = 0;
    uint32_t frames = 0;
  };
  std::map<std::string, Second> second_of_;  // by list
  uint64_t logged_ = 0;
  DropLog log_;
  // Of sources and files that are no more.
  CaptureCounts ended_;
  DropCounts ended_log_;
};

}  // namespace weir::control
