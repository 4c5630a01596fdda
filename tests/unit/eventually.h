#pragma once

#include <chrono>
#include <thread>

// The one place where a test waits. Patience is counted in the test's own turns, not by a clock: a machine that stands
// still for a while moves the end.
constexpr int kPatience = 20'000;

// Ends nothing: another thread or process has a moment, by the system's clock.
inline void a_moment() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Waits for another thread or process; fails the test only when it never comes.
template <class Test>
bool eventually(Test test) {
  for (int turn = 0; turn < kPatience; turn++) {
    if (test()) return true;
    a_moment();
  }
  return test();
}
