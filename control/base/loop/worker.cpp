#include "control/base/loop/worker.h"

#include <sys/resource.h>

#include "common/thread.h"

namespace weir::control {

Worker::~Worker() {
  stop();
  if (thread_.joinable()) thread_.join();
}

Result<void> Worker::start() {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable()) return {};
  Result<std::thread> started = start_thread([this] { run(); });
  if (!started) return Error{started.error()};
  thread_ = std::move(*started);
  return {};
}

void Worker::submit(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    jobs_.push_back(std::move(job));
  }
  if (!start()) return;  // the next one tries again
  changed_.notify_one();
}

void Worker::stop(std::function<void()> last) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    jobs_.clear();
    if (last && thread_.joinable()) jobs_.push_back(std::move(last));
  }
  changed_.notify_one();
}

bool Worker::is_busy() {
  const std::lock_guard lock(mutex_);
  return busy_ || (stopping_ && !jobs_.empty());
}

void Worker::run() {
  if (nice_ != 0) (void)setpriority(PRIO_PROCESS, 0, nice_);  // 0: the calling thread, on Linux
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      busy_ = false;
      changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
    }
    job();
  }
}

}  // namespace weir::control
