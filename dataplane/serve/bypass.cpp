#include "dataplane/serve/bypass.h"

#include <chrono>
#include <utility>

#include "common/clock.h"
#include "common/wait_for.h"

namespace weir::dataplane {

namespace {

constexpr std::chrono::seconds kTryAgain{1};  // to write to a disk that failed
constexpr std::chrono::milliseconds kSlow{500};

}  // namespace

void BypassSwitch::order(bool on, Saved saved) {
  const std::lock_guard lock(mutex_);
  switches_.bypass.store(on, std::memory_order_relaxed);
  waiting_.push_back({++ordered_, Clock::now(), std::move(saved)});
  events_.push_back({log::Level::notice,
                     on ? "bypass is ON: everything passes" : "bypass is off",
                     {{"cause", "the panic switch"}},
                     false});
  changed_.notify_all();
}

void BypassSwitch::log(log::Event event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

std::string BypassSwitch::disk_error() const {
  const std::lock_guard lock(mutex_);
  if (ordered_ == on_disk_) return "";
  return disk_error_.empty() ? "the disk has not answered yet" : disk_error_;
}

void BypassSwitch::run() {
  std::unique_lock lock(mutex_);
  running_ = true;
  uint64_t tried = 0;
  while (!stopping_) {
    const auto is_called = [&] { return stopping_ || ordered_ != tried || !events_.empty(); };
    if (ordered_ == on_disk_) {
      changed_.wait(lock, is_called);
    } else {
      wait_for(changed_, lock, kTryAgain, is_called);
    }
    const std::vector<log::Event> events = std::exchange(events_, {});
    if (!events.empty()) {
      lock.unlock();
      for (const log::Event& event : events) log::write(event);
      lock.lock();
    }
    if (stopping_ || ordered_ == on_disk_) continue;
    const bool had_failed = !disk_error_.empty();
    const bool on = is_on();
    tried = ordered_;
    lock.unlock();
    const auto is_newest = [&] {
      const std::lock_guard again(mutex_);
      return ordered_ == tried;
    };
    const Result<void> saved = state_.save_bypass(on, is_newest);
    if (!saved && !had_failed) {
      log::error("bypass would not outlive a restart; it is tried again until it does", {{"error", saved.error()}});
    }
    if (saved && had_failed) log::info("bypass is on disk now");
    lock.lock();
    if (ordered_ != tried) continue;  // overtaken, while the disk hung perhaps: it may not have been written
    if (saved) on_disk_ = tried;
    disk_error_ = saved ? "" : saved.error();
    lock.unlock();
    tell([tried](const Waiting& waiting) { return waiting.order <= tried; }, saved);
    lock.lock();
  }
  running_ = false;
}

void BypassSwitch::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

bool BypassSwitch::is_idle() const {
  const std::lock_guard lock(mutex_);
  return !running_;
}

void BypassSwitch::tick() {
  const Clock::time_point now = Clock::now();
  tell([now](const Waiting& waiting) { return now - waiting.since > kSlow; }, Error{"the disk has not answered yet"});
}

void BypassSwitch::tell(const std::function<bool(const Waiting&)>& whom, const Result<void>& result) {
  std::list<Waiting> told;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const auto next = std::next(it);
      if (whom(*it)) told.splice(told.end(), waiting_, it);
      it = next;
    }
  }
  for (const Waiting& waiting : told) waiting.saved(result);
}

}  // namespace weir::dataplane
