#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace weir::control {

// Whose turn it is at the journal: one thread's. A thread that changes it goes before all that ask. Recursive.
class Turn {
 public:
  // For one question, or a page of one. Ends with its owner.
  class [[nodiscard]] Held {
   public:
    explicit Held(Turn& turn) : turn_(turn) { turn_.take(false); }
    ~Held() { turn_.leave(); }
    Held(const Held&) = delete;

   private:
    Turn& turn_;
  };

  void begin_change() { take(true); }  // until leave()

  void leave() {
    {
      const std::lock_guard lock(mutex_);
      if (--depth_ != 0) return;
    }
    changed_.notify_all();
  }

 private:
  void take(bool is_change) {
    std::unique_lock lock(mutex_);
    if (depth_ == 0 || owner_ != std::this_thread::get_id()) {
      changes_ += is_change;
      changed_.wait(lock, [&] { return depth_ == 0 && (is_change || changes_ == 0); });
      changes_ -= is_change;
      owner_ = std::this_thread::get_id();
    }
    depth_++;
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::thread::id owner_;  // where depth_ is not 0
  unsigned depth_ = 0;
  unsigned changes_ = 0;  // that wait
};

}  // namespace weir::control
