#include "control/base/loop/loop.h"

#include <sys/eventfd.h>
#include <systemd/sd-event.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>

#include "common/log/log.h"

namespace weir::control {

namespace {

constexpr uint64_t kAccuracy_us = 1000;  // 0 would mean 250 ms
constexpr uint64_t kNever_us = UINT64_MAX;

uint64_t microseconds(Clock::duration time) {
  return static_cast<uint64_t>(
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::microseconds>(time).count()));
}

// Callbacks are called from C. An exception must not reach it, and a negative answer would switch the source off.
template <class Callback, class... Arguments>
int call(void* userdata, Arguments... arguments) noexcept {
  try {
    (*static_cast<Callback*>(userdata))(arguments...);
  } catch (const std::exception& e) {
    log::error("event loop: an exception", {{"error", e.what()}});
  }
  return 0;
}

using Plain = std::function<void()>;
using Io = std::function<void(uint32_t)>;

template <class Callback>
void destroy(void* userdata) {
  delete static_cast<Callback*>(userdata);
}

// Without memory or descriptors: nothing can go on. With an fd that is none, the program is wrong.
void must(int error, const char* what) {
  if (error >= 0) return;
  log::error("event loop: cannot go on", {{"what", what}, {"error", strerror(-error)}});
  if (error == -EBADF || error == -EINVAL) abort();
  std::_Exit(EXIT_FAILURE);
}

// The callback lives as long as the source, which sd-event keeps until a callback that runs has returned.
template <class Callback>
Loop::Source own(sd_event_source* source) {
  must(sd_event_source_set_destroy_callback(source, destroy<Callback>), "destroy callback");
  return Loop::Source(source);
}

}  // namespace

void Loop::Source::reset() {
  if (source_ != nullptr) sd_event_source_disable_unref(std::exchange(source_, nullptr));
}

struct Loop::Timer {
  Timer(std::shared_ptr<Timers> others, Clock::time_point due, Plain callback)
      : timers(std::move(others)), at(due), call_back(std::move(callback)) {
    timers->insert(this);
  }
  ~Timer() { timers->erase(this); }
  Timer(const Timer&) = delete;
  void operator()() { call_back(); }

  std::shared_ptr<Timers> timers;
  Clock::time_point at;
  Plain call_back;
  sd_event_source* source = nullptr;
};

Loop::Loop() : timers_(std::make_shared<Timers>()), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wake_) must(-errno, "cannot make an eventfd");
  must(sd_event_new(&event_), "cannot make one");
  posted_source_ = io(wake_.get(), EPOLLIN, [this](uint32_t) { run_posted(); });
  if (!posted_source_) must(-errno, "cannot watch a descriptor");
  (void)timer(Clock::now(),
              [] {});  // the first one opens a descriptor for all of them, and there may be none left later
}

Loop::~Loop() {
  posted_source_.reset();
  sd_event_unref(event_);
}

Loop::Source Loop::io(int fd, uint32_t events, Io callback) {
  sd_event_source* source = nullptr;
  const auto handler = [](sd_event_source*, int, uint32_t ready, void* userdata) { return call<Io>(userdata, ready); };
  auto owned = std::make_unique<Io>(std::move(callback));
  if (const int added = sd_event_add_io(event_, &source, fd, events, handler, owned.get()); added < 0) {
    errno = -added;
    return Source();
  }
  (void)owned.release();
  return own<Io>(source);
}

Loop::Source Loop::timer(Clock::time_point at, Plain callback) {
  sd_event_source* source = nullptr;
  const auto handler = [](sd_event_source*, uint64_t, void* userdata) { return call<Timer>(userdata); };
  const auto timer = new Timer(timers_, at, std::move(callback));
  must(sd_event_add_time(event_, &source, CLOCK_MONOTONIC, microseconds(at.time_since_epoch()), kAccuracy_us, handler,
                         timer),
       "cannot set a timer");
  timer->source = source;
  return own<Timer>(source);
}

Loop::Source Loop::signal(int number, Plain callback) {
  sd_event_source* source = nullptr;
  const auto handler = [](sd_event_source*, const signalfd_siginfo*, void* userdata) { return call<Plain>(userdata); };
  must(sd_event_add_signal(event_, &source, number, handler, new Plain(std::move(callback))), "cannot take a signal");
  return own<Plain>(source);
}

void Loop::feed_watchdog() {
  const int set = sd_event_set_watchdog(event_, 1);
  if (set < 0) log::warning("no watchdog", {{"error", strerror(-set)}});
}

void Loop::post(Plain job) {
  {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(job));
  }
  eventfd_write(wake_.get(), 1);
}

void Loop::run_posted() {
  eventfd_t count = 0;
  eventfd_read(wake_.get(), &count);
  std::deque<Plain> jobs;
  {
    std::lock_guard lock(mutex_);
    jobs.swap(posted_);
  }
  for (Plain& job : jobs) call<Plain>(&job);
}

void Loop::stop() {
  post([this] { stopping_ = true; });
}

void Loop::run() {
  while (!stopping_) turn(Clock::duration::max());
  stopping_ = false;
}

bool Loop::run_until(const std::function<bool()>& done, Clock::time_point deadline) {
  while (!done()) {
    if (stopping_) return false;
    const Clock::time_point now = Clock::now();
    if (now >= deadline) return false;
    turn(deadline - now + std::chrono::microseconds(1));
  }
  return true;
}

void Loop::follow_clocks() {
  const bool are_held = are_clocks_held();
  if (!are_held && !has_held_clocks_) return;
  has_held_clocks_ = are_held;
  const Clock::time_point now = Clock::now();
  for (const Timer* const timer : *timers_) {
    const uint64_t at_us = !are_held ? microseconds(timer->at.time_since_epoch()) : timer->at <= now ? 0 : kNever_us;
    must(sd_event_source_set_time(timer->source, at_us), "cannot move a timer");
  }
}

bool Loop::turn(Clock::duration longest) {
  follow_clocks();
  const int ran = sd_event_run(event_, microseconds(std::min(longest, longest_wait())));
  if (ran < 0 && ran != -EINTR) must(ran, "cannot go on");
  return ran > 0;
}

}  // namespace weir::control
