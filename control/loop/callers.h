#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace weir::control {

// The callers that wait for a result of another thread. Each is answered once: with the result, or that it was given
// up. The loop's thread alone.
class Callers {
 public:
  using Id = uint64_t;

  // give_up: tells the caller that there will be no result.
  Id add(std::function<void()> give_up) {
    waiting_.emplace(++last_, std::move(give_up));
    return last_;
  }
  // Before a result is told. False: the caller was answered already.
  bool take(Id id) { return waiting_.erase(id) != 0; }
  void give_up_all() {
    for (const auto& [id, give_up] : std::exchange(waiting_, {})) give_up();
  }

 private:
  std::map<Id, std::function<void()>> waiting_;
  Id last_ = 0;
};

}  // namespace weir::control
