#include "dataplane/serve/control_thread.h"

#include <cstdlib>

namespace weir::dataplane {

#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)
int ControlThread::start(const char* name) {
  const int error = rte_thread_create_control(
      &id_, name,
      [](void* argument) -> uint32_t {
        static_cast<ControlThread*>(argument)->body_();
        return 0;
      },
      this);
  running_ = error == 0;
  return std::abs(error);
}
void ControlThread::join() {
  if (std::exchange(running_, false)) rte_thread_join(id_, nullptr);
}
#else
int ControlThread::start(const char* name) {
  const int error = rte_ctrl_thread_create(
      &id_, name, nullptr,
      [](void* argument) -> void* {
        static_cast<ControlThread*>(argument)->body_();
        return nullptr;
      },
      this);
  running_ = error == 0;
  return std::abs(error);
}
void ControlThread::join() {
  if (std::exchange(running_, false)) pthread_join(id_, nullptr);
}
#endif

}  // namespace weir::dataplane
