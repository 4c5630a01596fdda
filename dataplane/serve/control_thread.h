#pragma once

#include <rte_lcore.h>
#include <rte_version.h>

#include <functional>
#include <utility>

namespace weir::dataplane {

// A thread beside the workers: EAL keeps it off their CPUs where it can. Joined when it goes; whoever stops it has to
// have done so by then. The calls changed their names in DPDK 23.07.
class ControlThread {
 public:
  explicit ControlThread(std::function<void()> body) : body_(std::move(body)) {}
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;
  ~ControlThread() { join(); }

  // 0, or an error number. name: at most 15 characters.
  int start(const char* name);
  void join();

 private:
  std::function<void()> body_;
  bool running_ = false;
#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)
  rte_thread_t id_;
#else
  pthread_t id_;
#endif
};

}  // namespace weir::dataplane
