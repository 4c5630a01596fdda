#include "dataplane/serve/wall_clock.h"

#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

#include "common/clock.h"

namespace weir::dataplane {

namespace {

uint64_t system_unix_s() {
  return static_cast<uint64_t>(unix_now());
}

}  // namespace

WallClock::WallClock(Switches& switches, std::optional<uint64_t> fixed_unix_s)
    : switches_(switches), fixed_(fixed_unix_s.has_value()), thread_([this] { run(); }) {
  publish(fixed_unix_s.value_or(system_unix_s()));
}

int WallClock::start(LinkWatch links, std::function<void()> tick) {
  links_ = std::move(links);
  tick_ = std::move(tick);
  return thread_.start("weir-clock");
}

void WallClock::stop() {
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void WallClock::run() {
  for (unsigned tenths = 0; !stop_.load(std::memory_order_relaxed); tenths++) {
    if (!fixed_) publish(system_unix_s());
    if (tenths % 10 == 0) links_->check();
    tick_();
    turns_.store(tenths + 1, std::memory_order_relaxed);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace weir::dataplane
