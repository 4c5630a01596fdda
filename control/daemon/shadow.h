#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/diagnostic.h"
#include "common/shadow.h"
#include "control/policy/read/feed_file.h"
#include "control/tell/answer/change.h"

namespace weir::control {

struct Base;
struct Running;
struct ShadowCandidate;
class Mailbox;
class Maker;
class TargetLink;
class Waits;
class Worker;

// Flows that the candidate of a shadow and what runs judge differently: the newest of those that were sampled.
class ShadowFlows {
 public:
  static constexpr size_t kMost = 256;

  void clear() { rows_.clear(); }
  void add(const wire::Shadow& told);
  // Flows with the most sampled frames come first.
  std::vector<ShadowFlowRow> rows() const;

 private:
  std::map<std::string, ShadowFlowRow> rows_;  // by all that is told of a flow but how often and when
};

// A candidate that judges beside what runs.
struct Shadowing {
  std::string path;
  std::shared_ptr<const std::string> text;  // of that file, as it was compiled
  uint32_t one_in = 1;
  int64_t at = 0;  // Unix seconds
  std::shared_ptr<const Base> base;
  wire::Generation beside;  // what ran when it began
  Diagnostics diagnostics;
};

// A candidate is read and compiled beside what runs, targets judge live packets by it, and it is promoted or ends. It
// changes nothing that is enforced. The loop's thread calls it.
class Shadow {
 public:
  // Its daemon has these. They outlive it.
  struct Uses {
    Mailbox& mailbox;
    Waits& waits;
    Worker& planner;  // reads the candidate
    Worker& maker_thread;
    Maker& maker;     // gives it a number
    Worker& builder;  // compiles it
    const std::shared_ptr<const Running>& running;
    const std::vector<std::shared_ptr<TargetLink>>& targets;
    std::function<FeedHistory(const Running& running)> history;  // the planner asks
    unsigned build_threads;
    std::chrono::milliseconds patience;  // with targets
  };
  explicit Shadow(Uses uses) : uses_(std::move(uses)) {}
  Shadow(const Shadow&) = delete;

  struct Wish {
    std::string path, text;  // of the policy, which is read as this file
    uint32_t one_in = 1;
    uint32_t uid = kNobody;
    int32_t pid = 0;
  };
  struct Report {
    Diagnostics diagnostics;
    std::string error;  // why it does not judge; empty: it does, or diagnostics say it
    bool has_begun = false;
  };
  using Begun = std::function<void(std::shared_ptr<const Report>)>;
  // One that judged before ends. Changes and reloads go on beside it.
  void begin(Wish wish, Begun done);
  void end(const std::string& why, std::function<void()> done);
  // Calls back when every target that is there has told what it counted, or at the deadline.
  void refresh(Clock::time_point deadline, std::function<void()> done);
  // The targets are others now.
  void tell_targets() const;
  void take(const wire::Shadow& told) { flows_.add(told); }
  // Answers the caller that waits. No candidate begins any more.
  void stop();

  // The one that judges, or the last one; null: there was none.
  std::shared_ptr<const Shadowing> latest() const { return latest_; }
  bool is_on() const { return candidate_ != nullptr; }
  const std::string& why_ended() const { return why_ended_; }
  const ShadowFlows& flows() const { return flows_; }

 private:
  struct Asked;
  void read(const std::shared_ptr<Asked>& asked);
  void number(const std::shared_ptr<Asked>& asked);
  void build(const std::shared_ptr<Asked>& asked);
  void judge(const std::shared_ptr<Asked>& asked);
  void answer(const std::shared_ptr<Asked>& asked);

  const Uses uses_;
  bool is_stopped_ = false;
  std::shared_ptr<Asked> asked_;  // that is read or compiled
  std::shared_ptr<const Shadowing> latest_;
  std::shared_ptr<const ShadowCandidate> candidate_;  // that targets judge by; null: none
  std::string why_ended_;
  ShadowFlows flows_;
};

}  // namespace weir::control
