#include "dataplane/serve/heartbeat.h"

#include <fmt/format.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/wait_for.h"

namespace weir::dataplane {

namespace {

using std::chrono::microseconds;

constexpr microseconds kUntilReady{20'000};
constexpr microseconds kMostPause{1'000'000};
constexpr int kLooks = 8;  // in the time that the watchdog waits: it is fed with some to spare

}  // namespace

bool Pulse::all_moved() {
  std::vector<uint64_t> now;
  for (const Part& part : parts_) now.push_back(part.beats());
  for (size_t i = 0; i < parts_.size(); i++) {
    if (now[i] == seen_[i]) return false;
  }
  seen_ = std::move(now);
  return true;
}

std::string Pulse::standing() const {
  std::string names;
  for (size_t i = 0; i < parts_.size(); i++) {
    if (parts_[i].beats() == seen_[i]) names += (names.empty() ? "" : ", ") + parts_[i].name;
  }
  return names;
}

std::string service_status(const wire::StatusBody& status, bool passes_without_snapshot) {
  std::string text = status.generation.number != 0 ? fmt::format("enforcing generation {}", status.generation.number)
                     : passes_without_snapshot     ? "no policy yet: everything passes"
                                                   : "no policy yet: everything is dropped";
  if (status.bypass != 0) text = "bypass is ON: everything passes; without it: " + text;
  if (status.snapshot_durable == 0 && status.generation.number != 0) text += ", not on disk";
  return text;
}

Heartbeat::Heartbeat(Subject subject) : subject_(std::move(subject)) {
  uint64_t watchdog_us = 0;
  if (sd_watchdog_enabled(0, &watchdog_us) > 0) watchdog_ = microseconds(watchdog_us);
}

bool Heartbeat::is_wanted() {
  return getenv("NOTIFY_SOCKET") != nullptr;
}

void Heartbeat::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  stopped_.notify_all();
}

bool Heartbeat::pause(microseconds length) {
  std::unique_lock lock(mutex_);
  return !wait_for(stopped_, lock, length, [this] { return is_stopping_; });
}

void Heartbeat::run() {
  is_running_ = true;
  Pulse pulse(subject_.parts);
  microseconds length = kUntilReady;
  Clock::time_point moved = Clock::now();
  std::string told;
  bool is_ready = false, has_complained = false;
  while (true) {
    subject_.nudge();
    if (!pause(length)) break;
    if (!pulse.all_moved()) {
      const bool is_long = is_ready && watchdog_.count() != 0 && Clock::now() - moved > watchdog_ / 2;
      if (is_long && !std::exchange(has_complained, true)) {
        const auto length_ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - moved).count();
        log::error("standing still: the watchdog ends this process unless it goes on",
                   {{"who", pulse.standing()}, {"for_ms", length_ms}});
      }
      continue;
    }
    moved = Clock::now();
    has_complained = false;
    std::string message = is_ready ? "" : "READY=1\n";
    if (is_ready && watchdog_.count() != 0) message += "WATCHDOG=1\n";
    if (std::string status = subject_.status(); status != told) {
      message += "STATUS=" + status + "\n";
      told = std::move(status);
    }
    if (!message.empty()) sd_notify(0, message.c_str());
    is_ready = true;
    length = watchdog_.count() != 0 ? std::min(kMostPause, watchdog_ / kLooks) : kMostPause;
  }
  sd_notify(0, "STOPPING=1");
  is_running_ = false;
}

}  // namespace weir::dataplane
