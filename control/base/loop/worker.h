#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "common/result.h"

namespace weir::control {

// A thread for what would hold a loop: does jobs in turn. The thread is made with the first of them.
class Worker {
 public:
  // nice: of its thread, and of those that its jobs start (setpriority(2)); where it cannot be had, it is as all else.
  explicit Worker(int nice = 0) : nice_(nice) {}
  ~Worker();  // waits for the job at hand; those after it are dropped
  Worker(const Worker&) = delete;

  void submit(std::function<void()> job);  // any thread
  // Nothing but the job at hand, and then `last`, is done from now on, without waiting for them.
  void stop(std::function<void()> last = {});
  bool is_busy();                                 // with a job, or the last one is to come
  bool is_stopping() const { return stopping_; }  // any thread
  // Its thread, which else the first job starts. Error: there is none.
  Result<void> start();

 private:
  void run();

  const int nice_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::atomic<bool> stopping_ = false;  // set under the mutex
  bool busy_ = false;
  std::thread thread_;
};

}  // namespace weir::control
