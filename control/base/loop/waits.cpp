#include "control/base/loop/waits.h"

namespace weir::control {

void Waits::add(std::function<bool()> ready, Clock::time_point deadline, std::function<void()> then) {
  Wait& wait = waits_.emplace_back();
  wait.then = std::move(then);
  // One that is ready already is called by the loop as well, so that nobody is called back while he asks.
  const bool is_ready = ready();
  wait.ready = std::move(ready);
  wait.timer = loop_.timer(is_ready ? Clock::now() : deadline, [this, &wait] {
    wait.is_over = true;
    end_those([](const Wait& one) { return one.is_over; });
  });
}

void Waits::check() {
  end_those([](const Wait& wait) { return wait.ready(); });
}

void Waits::end_all() {
  end_those([](const Wait&) { return true; });
}

// then() may add others, or check again: only those that are over now are touched.
void Waits::end_those(const std::function<bool(const Wait&)>& over) {
  std::list<Wait> ended;
  for (auto it = waits_.begin(); it != waits_.end();) {
    const auto next = std::next(it);
    if (over(*it)) ended.splice(ended.end(), waits_, it);
    it = next;
  }
  for (Wait& wait : ended) {
    wait.timer.reset();
    wait.then();
  }
}

}  // namespace weir::control
