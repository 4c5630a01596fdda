#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/result.h"
#include "dataplane/burst/worker.h"
#include "dataplane/start/state_dir.h"

namespace weir::dataplane {

// The panic switch of a data plane: an order is in force when order() returns. A thread that runs run() writes it to
// disk, and again until it is there, and says what is to be logged of it: a disk or a log that is slow, full or dead
// holds that thread alone. Any thread may call.
class BypassSwitch {
 public:
  BypassSwitch(Switches& switches, const StateDir& state) : switches_(switches), state_(state) {}

  // saved: called once, when this order or a later one is on disk, or with the reason why it is not yet: the disk
  // failed or is slow.
  using Saved = std::function<void(const Result<void>&)>;
  void order(bool on, Saved saved);

  void log(log::Event event);

  bool is_on() const { return switches_.bypass.load(std::memory_order_relaxed); }
  // Why the last order would not outlive a restart; empty: it would.
  std::string disk_error() const;

  void run();  // until stop()
  void stop();
  bool is_idle() const;  // run() has returned, or was never called
  // Tells those who have waited for the disk for long that it is slow. To be called every 100 ms or so.
  void tick();

 private:
  struct Waiting {
    uint64_t order;
    Clock::time_point since;
    Saved saved;
  };
  void tell(const std::function<bool(const Waiting&)>& whom, const Result<void>& result);

  Switches& switches_;
  const StateDir& state_;
  mutable std::mutex mutex_;  // guards what follows, and orders: who writes last writes what is so now
  std::condition_variable changed_;
  uint64_t ordered_ = 0, on_disk_ = 0;  // numbers of orders
  std::string disk_error_;
  std::list<Waiting> waiting_;
  std::vector<log::Event> events_;  // to be logged
  bool stopping_ = false, running_ = false;
};

}  // namespace weir::dataplane
