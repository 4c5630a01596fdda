#pragma once

#include <chrono>
#include <cstdint>

namespace weir {

// The clocks of all programs: nothing else asks the system for the time (tests/structure/clocks.py), but the workers'
// bursts, which count cycles.

// For deadlines, pauses, and how long something took: CLOCK_MONOTONIC.
struct Clock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;
  static time_point now() noexcept;
};
inline double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}
inline double ms_since(Clock::time_point from) {
  return ms_between(from, Clock::now());
}

// The time since 1970, as people, files and other hosts are told it: CLOCK_REALTIME, which may jump.
int64_t unix_now() noexcept;     // seconds
int64_t unix_now_ns() noexcept;  // nanoseconds
std::chrono::system_clock::time_point wall_now() noexcept;

// The time since the boot, with the time in which the machine slept: CLOCK_BOOTTIME.
int64_t boot_now() noexcept;     // seconds
int64_t boot_now_ns() noexcept;  // nanoseconds

// A test stops all clocks of this process and moves them, by OwnClocks (tests/unit/own_clocks.h). Any thread.
void hold_clocks() noexcept;
void move_clocks(Clock::duration by) noexcept;
void let_clocks_go() noexcept;
bool are_clocks_held() noexcept;
// A wait looks at the clocks again after so long: a test may have moved them.
inline Clock::duration longest_wait() noexcept {
  return are_clocks_held() ? Clock::duration(std::chrono::milliseconds(5)) : Clock::duration(std::chrono::hours(1));
}

}  // namespace weir
