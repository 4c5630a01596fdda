#pragma once

#include <chrono>
#include <thread>

// Waits for another thread or process; fails the test only when it never comes.
template <class Test>
bool eventually(Test test) {
  for (int i = 0; i < 20'000; i++) {
    if (test()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}
