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

// Of the day, since 1970: what people, files and other hosts are told. CLOCK_REALTIME, which may jump.
int64_t unix_now() noexcept;     // seconds
int64_t unix_now_ns() noexcept;  // nanoseconds
std::chrono::system_clock::time_point wall_now() noexcept;

// Since the boot; time in which the machine slept counts. CLOCK_BOOTTIME.
int64_t boot_now() noexcept;     // seconds
int64_t boot_now_ns() noexcept;  // nanoseconds

// For tests, by OwnClocks (tests/unit/own_clocks.h): the clocks of this process stand still, and go on when they are
// moved. Any thread.
void hold_clocks() noexcept;
void move_clocks(Clock::duration by) noexcept;
void let_clocks_go() noexcept;
bool are_clocks_held() noexcept;
// After so long whoever waits looks at the clocks again: a test may hold and move them.
inline Clock::duration longest_wait() noexcept {
  return are_clocks_held() ? Clock::duration(std::chrono::milliseconds(5)) : Clock::duration(std::chrono::hours(1));
}

}  // namespace weir
