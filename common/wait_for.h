#pragma once

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>

#include "common/clock.h"

namespace weir {

// std::condition_variable::wait_for() by these clocks: whether `is_over` holds at the end.
template <class IsOver>
bool wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Clock::duration length,
              IsOver is_over) {
  const Clock::time_point end = Clock::now() + length;
  while (!is_over()) {
    const Clock::duration left = end - Clock::now();
    if (left <= Clock::duration::zero()) return false;
    changed.wait_for(lock, std::min<Clock::duration>(left, longest_wait()));
  }
  return true;
}

// std::future::wait_for() by these clocks: whether the answer has come.
template <class Answer>
bool wait_for(const std::future<Answer>& answer, Clock::duration length) {
  const Clock::time_point end = Clock::now() + length;
  while (true) {
    const Clock::duration left = end - Clock::now();
    const auto state = answer.wait_for(std::clamp(left, Clock::duration::zero(), longest_wait()));
    if (state != std::future_status::timeout || left <= Clock::duration::zero()) {
      return state == std::future_status::ready;
    }
  }
}

}  // namespace weir
