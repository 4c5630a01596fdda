#pragma once

#include <functional>
#include <future>
#include <string>
#include <thread>

// Threads on which an order of the panic switch waits run before all that is not real time (SCHED_RR of priority 1, the
// lowest; sched(7)): an attack, or a reload, may give a machine more to do than it has processors for. Who runs at a
// higher priority already keeps it.
namespace weir::realtime {

// While it lives, the calling thread runs so, where this process may; programs and threads that it starts do not.
class Scope {
 public:
  Scope();
  ~Scope();
  Scope(const Scope&) = delete;

 private:
  bool is_changed_ = false;
  int policy_before_ = 0;
};

// Made while the process may still have real-time threads. Threads inherit that from who starts them: those that run()
// starts have it after those rights are gone, and so have those that they start.
class Starter {
 public:
  Starter();
  ~Starter();
  Starter(const Starter&) = delete;

  explicit operator bool() const { return error_.empty(); }
  std::string why_not() const;  // for the log, when it has no such thread
  // Once, and waits for it. Work is done by that thread; by the calling one when there is none.
  void run(const std::function<void()>& work);

 private:
  std::promise<std::function<void()>> work_;
  std::thread thread_;
  std::string error_;
};

}  // namespace weir::realtime
