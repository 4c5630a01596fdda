#include "common/realtime.h"

#include <sched.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/result.h"
#include "common/thread.h"

namespace weir::realtime {

namespace {

constexpr int kPriority = 1;

int policy_of_this_thread() {
  return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

bool is_realtime(int policy) {
  return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

// 0, or an error number.
int schedule(int policy, int priority) {
  sched_param parameters = {};
  parameters.sched_priority = priority;
  return sched_setscheduler(0, policy, &parameters) == 0 ? 0 : errno;
}

}  // namespace

Scope::Scope() : policy_before_(policy_of_this_thread()) {
  is_changed_ = !is_realtime(policy_before_) && schedule(SCHED_RR | SCHED_RESET_ON_FORK, kPriority) == 0;
}

Scope::~Scope() {
  if (is_changed_) schedule(policy_before_, 0);
}

Starter::Starter() {
  std::promise<int> begun;
  std::future<int> outcome = begun.get_future();
  Result<std::thread> thread = start_thread([begun = std::move(begun), work = work_.get_future()]() mutable {
    begun.set_value(is_realtime(policy_of_this_thread()) ? 0 : schedule(SCHED_RR, kPriority));
    if (const std::function<void()> given = work.get()) given();
  });
  if (!thread) {
    error_ = thread.error();
    return;
  }
  thread_ = std::move(*thread);
  if (const int error = outcome.get(); error != 0) error_ = std::string("SCHED_RR: ") + strerror(error);
}

Starter::~Starter() {
  if (!thread_.joinable()) return;
  work_.set_value({});
  thread_.join();
}

std::string Starter::why_not() const {
  return "the panic switch waits for a processor as all else does: it has no real-time thread (" + error_ +
         "; CAP_SYS_NICE or RLIMIT_RTPRIO would give it one)";
}

void Starter::run(const std::function<void()>& work) {
  if (!thread_.joinable()) return work();
  work_.set_value(work);
  thread_.join();
}

}  // namespace weir::realtime
