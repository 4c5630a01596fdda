#pragma once

#include <functional>
#include <future>
#include <thread>

// Threads on which an order of the panic switch waits run before all that is not real time (SCHED_RR of priority 1, the
// lowest; sched(7)): an attack, or a reload, may give a machine more to do than it has processors for.
namespace weir::realtime {

constexpr const char* kNoRight =
    "the panic switch waits for a processor as all else does: this user may have no real-time threads (RLIMIT_RTPRIO)";

// While it lives, the calling thread is such a thread, where this process may have one.
class Scope {
 public:
  Scope();
  ~Scope();
  Scope(const Scope&) = delete;

 private:
  int policy_before_ = -1, priority_before_ = 0;
};

// Starts such threads after this process gave up its rights: a thread that is one since before, as are those that it
// starts.
class Starter {
 public:
  Starter();
  ~Starter();
  Starter(const Starter&) = delete;

  // False: this process may have no such threads (CAP_SYS_NICE, RLIMIT_RTPRIO).
  explicit operator bool() const { return is_realtime_; }
  // Once, and waits for it. Threads that work() starts are real-time threads.
  void run(const std::function<void()>& work);

 private:
  std::promise<std::function<void()>> work_;
  std::thread thread_;
  bool is_realtime_ = false;
};

}  // namespace weir::realtime
