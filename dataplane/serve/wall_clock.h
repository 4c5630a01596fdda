#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "dataplane/burst/worker.h"
#include "dataplane/ports/links.h"
#include "dataplane/serve/control_thread.h"

namespace weir::dataplane {

// Wall-clock seconds for the workers, every 100 ms, and a look at the links every second. A thread of its own:
// `expires` is exact to the second, whatever the others are busy with.
class WallClock {
 public:
  // fixed_unix_s: what it shows instead, for ever.
  WallClock(Switches& switches, std::optional<uint64_t> fixed_unix_s);
  ~WallClock() { stop(); }

  // 0, or an error number. tick: called every 100 ms, too.
  int start(LinkWatch links, std::function<void()> tick);
  void stop();
  // How often it has published; any thread.
  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

 private:
  void run();
  void publish(uint64_t unix_s) { switches_.now_unix_s.store(unix_s, std::memory_order_relaxed); }

  Switches& switches_;
  bool fixed_;
  std::optional<LinkWatch> links_;
  std::function<void()> tick_;
  std::atomic<uint64_t> turns_ = 0;
  std::atomic<bool> stop_ = false;
  ControlThread thread_;
};

}  // namespace weir::dataplane
