#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/daemon/api.h"
#include "control/loop/loop.h"
#include "control/loop/waits.h"
#include "control/loop/worker.h"
#include "control/publish/store.h"
#include "control/publish/targets/kinds.h"
#include "control/publish/targets/target.h"

namespace weir::control {

// The panic switch: `bypass on` and `off`. A thread with a loop, a socket and connections of its own, which nothing but
// these orders uses: no reload, no client, no publication and no disk that hangs can delay it. An order is always sent,
// whatever a target was thought to do, and repeated until it is confirmed. Every method: any thread.
class PanicSwitch {
 public:
  struct Outcome {
    std::string target;
    bool confirmed = false;
    std::string error;  // why not
  };
  struct Report {
    bool on = false;
    std::vector<Outcome> targets;
    Result<void> remembered;  // on disk
  };
  struct Hooks {
    // A target confirmed. Called by the switch's thread, as are all callbacks.
    std::function<void(const std::string& target, bool on)> confirmed;
    // Of its own API: as ApiServer::Handlers.
    std::function<void(PanicSwitch& panic, const std::string& line, ApiServer::Reply reply)> answer;
    std::function<std::string(const std::string& error)> failure;
  };

  // socket: of its own API; empty: none. on: as remembered; empty: it was never used.
  static Result<std::unique_ptr<PanicSwitch>> start(const std::string& socket, Planes& planes, Store& store,
                                                    int acknowledge_ms, TargetTimes times, Hooks hooks);
  ~PanicSwitch();
  PanicSwitch(const PanicSwitch&) = delete;

  bool is_on() const { return on_; }
  // Of those that went away, nothing more is wanted; those that are new hear of it when somebody tells them.
  void set_targets(std::vector<TargetSpec> targets);
  // To all targets, then to disk. Reports when all have confirmed, or after acknowledge_ms.
  void order(bool on, std::function<void(const Report&)> done);
  // This target is there again: it hears the last order, if there ever was one. known: what it said of itself. Calls
  // back when it confirmed, and after times.answer at the latest.
  void greet(const std::string& target, bool known, std::function<void()> done);

 private:
  struct Line {  // to one target
    TargetSpec spec;
    uint64_t wanted = 0, confirmed = 0;  // numbers of orders
    bool is_news = false;                // to be logged when it is confirmed
    std::string error;
    uint32_t sequence = 0;  // of the last message
    Fd connection;
    Loop::Source readable, again;
    bool is_confirmed() const { return confirmed >= wanted; }
  };

  PanicSwitch(Planes& planes, Store& store, int acknowledge_ms, TargetTimes times, Hooks hooks);
  void take_order(bool on, const std::function<void(const Report&)>& done);
  void tell(Line& line);
  void tell_later(Line& line, const std::string& error);
  void receive(Line& line);
  void take_confirmation(Line& line);
  Line* find(const std::string& target);
  Report report(bool on, uint64_t number) const;

  Planes& planes_;
  Store& store_;
  const int acknowledge_ms_;
  const TargetTimes times_;
  const Hooks hooks_;
  std::atomic<bool> on_ = false;

  // The thread's.
  Loop loop_;
  Waits waits_{loop_};
  std::unique_ptr<Mailbox> mailbox_ = std::make_unique<Mailbox>(loop_);
  std::unique_ptr<ApiServer> api_;
  std::list<Line> lines_;
  std::optional<bool> wanted_;
  uint64_t orders_ = 0;
  uint64_t remembered_order_ = 0;  // the newest that the disk has, or refused
  Result<void> remembered_;
  Worker disk_;  // a disk that hangs holds this alone

  std::thread thread_;
};

}  // namespace weir::control
