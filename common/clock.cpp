#include "common/clock.h"

#include <atomic>
#include <ctime>

namespace weir {

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

// While the clocks are held: when that began, by each of them, and how far they were moved since.
struct Held {
  std::atomic<bool> is_so = false;
  std::atomic<int64_t> monotonic_ns = 0, realtime_ns = 0, boottime_ns = 0, moved_ns = 0;

  int64_t ns(clockid_t clock) const noexcept {
    const std::atomic<int64_t>& began = clock == CLOCK_MONOTONIC  ? monotonic_ns
                                        : clock == CLOCK_REALTIME ? realtime_ns
                                                                  : boottime_ns;
    return began + moved_ns;
  }
} held;

int64_t system_ns(clockid_t clock) noexcept {
  timespec now = {};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * kNsPerSecond + now.tv_nsec;
}

int64_t now_ns(clockid_t clock) noexcept {
  return held.is_so.load(std::memory_order_acquire) ? held.ns(clock) : system_ns(clock);
}

}  // namespace

Clock::time_point Clock::now() noexcept {
  return time_point(duration(now_ns(CLOCK_MONOTONIC)));
}

int64_t unix_now_ns() noexcept {
  return now_ns(CLOCK_REALTIME);
}

int64_t unix_now() noexcept {
  return unix_now_ns() / kNsPerSecond;
}

std::chrono::system_clock::time_point wall_now() noexcept {
  return std::chrono::system_clock::time_point(std::chrono::nanoseconds(unix_now_ns()));
}

int64_t boot_now_ns() noexcept {
  return now_ns(CLOCK_BOOTTIME);
}

int64_t boot_now() noexcept {
  return boot_now_ns() / kNsPerSecond;
}

void hold_clocks() noexcept {
  held.monotonic_ns = system_ns(CLOCK_MONOTONIC);
  held.realtime_ns = system_ns(CLOCK_REALTIME);
  held.boottime_ns = system_ns(CLOCK_BOOTTIME);
  held.moved_ns = 0;
  held.is_so.store(true, std::memory_order_release);
}

void move_clocks(Clock::duration by) noexcept {
  held.moved_ns += by.count();
}

void let_clocks_go() noexcept {
  held.is_so.store(false, std::memory_order_release);
}

bool are_clocks_held() noexcept {
  return held.is_so.load(std::memory_order_acquire);
}

}  // namespace weir
