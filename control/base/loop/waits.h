#pragma once

#include <functional>
#include <list>

#include "control/base/loop/loop.h"

namespace weir::control {

// What waits on a loop for something to become true: requests of the API for answers of targets, say.
class Waits {
 public:
  explicit Waits(Loop& loop) : loop_(loop) {}
  Waits(const Waits&) = delete;

  // Calls then() once: when ready() says so, or at the deadline. Never before this returns.
  void add(std::function<bool()> ready, Clock::time_point deadline, std::function<void()> then);
  // Something changed: asks everyone who waits.
  void check();
  // Nobody has to wait any longer.
  void end_all();

 private:
  struct Wait {
    std::function<bool()> ready;
    std::function<void()> then;
    bool is_over = false;
    Loop::Source timer;
  };
  void end_those(const std::function<bool(const Wait&)>& over);

  Loop& loop_;
  std::list<Wait> waits_;
};

}  // namespace weir::control
