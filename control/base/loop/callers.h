#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "control/base/loop/loop.h"

namespace weir::control {

// The callers that wait for a result of another thread. Each is answered once: with the result, or that it was given
// up. The loop's thread alone.
class Callers {
 public:
  using Id = uint64_t;

  // give_up: tells the caller that there will be no result.
  Id add(std::function<void()> give_up) {
    waiting_.emplace(++last_, Waiting{std::move(give_up), {}});
    return last_;
  }
  // The timer ends when the caller is answered: thousands of callers a second leave none behind.
  void keep_until_answered(Id id, Loop::Source timer) { waiting_.at(id).timer = std::move(timer); }
  // Before a result is told. False: the caller was answered already.
  bool take(Id id) { return waiting_.erase(id) != 0; }
  void give_up_all() {
    for (const auto& [id, one] : std::exchange(waiting_, {})) one.give_up();
  }

 private:
  struct Waiting {
    std::function<void()> give_up;
    Loop::Source timer;
  };
  std::map<Id, Waiting> waiting_;
  Id last_ = 0;
};

}  // namespace weir::control
