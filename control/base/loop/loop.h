#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "common/clock.h"
#include "common/fd.h"

struct sd_event;
struct sd_event_source;

namespace weir::control {

// One thread's event loop (sd-event(3)) and its sources, with owners. All of it belongs to the thread that runs it, but
// for post() and stop(). A callback must not wait for anything; one that throws is logged and called again next time.
// Timers follow the clocks of common/clock.h, also while a test holds them.
class Loop {
 public:
  // What calls back. Ends with its owner, also inside its own callback.
  class [[nodiscard]] Source {
   public:
    Source() = default;
    explicit Source(sd_event_source* source) : source_(source) {}
    Source(Source&& other) noexcept : source_(std::exchange(other.source_, nullptr)) {}
    Source& operator=(Source&& other) noexcept {
      if (this != &other) reset();
      source_ = std::exchange(other.source_, nullptr);
      return *this;
    }
    ~Source() { reset(); }
    explicit operator bool() const { return source_ != nullptr; }
    void reset();

   private:
    sd_event_source* source_ = nullptr;
  };

  Loop();
  ~Loop();
  Loop(const Loop&) = delete;

  // As long as any of `events` (EPOLLIN, EPOLLOUT) is ready. fd stays the caller's, and is open as long as the source.
  // Empty: the kernel has no room to watch one more (errno).
  Source io(int fd, uint32_t events, std::function<void(uint32_t ready)> callback);
  // Once.
  Source timer(Clock::time_point at, std::function<void()> callback);
  // A signal, which every thread has blocked.
  Source signal(int number, std::function<void()> callback);
  // Tells the service manager that this loop turns, when it asks (WatchdogSec=).
  void feed_watchdog();

  // Runs what other threads want done here, in their order. Any thread.
  void post(std::function<void()> job);

  void run();   // until stop()
  void stop();  // any thread
  // Until done() says so, asked after every event; false: the deadline came first, or stop().
  bool run_until(const std::function<bool()>& done, Clock::time_point deadline);

  // Waits so long, by the system's clock, for what is ready, and calls it back; false: nothing was.
  bool turn(Clock::duration longest);

 private:
  struct Timer;
  using Timers = std::set<Timer*>;
  void run_posted();
  void follow_clocks();

  sd_event* event_ = nullptr;
  std::shared_ptr<Timers> timers_;  // a source may outlive its loop
  bool has_held_clocks_ = false;
  bool stopping_ = false;
  Fd wake_;  // eventfd
  Source posted_source_;
  std::mutex mutex_;  // guards what follows
  std::deque<std::function<void()>> posted_;
};

// Brings jobs of other threads to an object of the loop: those that arrive when it is gone are dropped. Made and
// destroyed by the loop's thread; post() from any thread that the object outlives.
class Mailbox {
 public:
  explicit Mailbox(Loop& loop) : loop_(loop), alive_(std::make_shared<bool>(true)) {}
  ~Mailbox() { *alive_ = false; }
  Mailbox(const Mailbox&) = delete;

  void post(std::function<void()> job) const { loop_.post(guarded(std::move(job))); }
  // The job, which does nothing when the object is gone. To be called by the loop's thread.
  std::function<void()> guarded(std::function<void()> job) const {
    return [alive = alive_, job = std::move(job)] {
      if (*alive) job();
    };
  }
  // False when the object is gone. To be read by the loop's thread.
  std::shared_ptr<const bool> token() const { return alive_; }

 private:
  Loop& loop_;
  const std::shared_ptr<bool> alive_;  // read and written by the loop's thread alone
};

}  // namespace weir::control
