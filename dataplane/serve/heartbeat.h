#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "common/wire.h"

// What systemd hears of a data plane (sd_notify(3)): that its workers poll, what it enforces, and for its watchdog that
// nobody stands still.
namespace weir::dataplane {

// Threads that must go on, each by a counter that it raises. Who is asked for it alone looks at them.
class Pulse {
 public:
  struct Part {
    std::string name;  // as in "worker 0"
    std::function<uint64_t()> beats;
  };
  explicit Pulse(std::vector<Part> parts) : parts_(std::move(parts)), seen_(parts_.size(), 0) {}

  // Every one has moved since the last time that this was true, or since it began.
  bool all_moved();
  // Who has not, since then: "worker 0, control"
  std::string standing() const;

 private:
  const std::vector<Part> parts_;
  std::vector<uint64_t> seen_;
};

// "enforcing generation 12, ...": for `systemctl status`.
std::string service_status(const wire::StatusBody& status, bool passes_without_snapshot);

// A thread of its own: a service manager that does not read holds up nobody else.
class Heartbeat {
 public:
  struct Subject {
    std::vector<Pulse::Part> parts;
    std::function<void()> nudge;  // has those move that wait for something to do
    std::function<std::string()> status;
  };
  explicit Heartbeat(Subject subject);
  // A service manager asked for it ($NOTIFY_SOCKET).
  static bool is_wanted();

  void run();   // until stop(); the last that it says is that the service stops
  void stop();  // any thread; a service manager that does not read holds up run(), and nobody else
  // run() has returned, or was never called.
  bool is_idle() const { return !is_running_.load(); }

 private:
  bool pause(std::chrono::microseconds length);  // false: it stops
  const Subject subject_;
  std::atomic<bool> is_running_ = false;
  std::chrono::microseconds watchdog_{0};  // 0: none
  std::mutex mutex_;                       // guards what follows
  std::condition_variable stopped_;
  bool is_stopping_ = false;
};

}  // namespace weir::dataplane
