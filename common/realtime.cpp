#include "common/realtime.h"

#include <sched.h>

#include <utility>

#include "common/result.h"
#include "common/thread.h"

namespace weir::realtime {

namespace {

constexpr int kPriority = 1;

bool schedule(int policy, int priority) {
  sched_param parameters = {};
  parameters.sched_priority = priority;
  return sched_setscheduler(0, policy, &parameters) == 0;  // of the calling thread alone
}

}  // namespace

Scope::Scope() {
  sched_param before = {};
  if (sched_getparam(0, &before) != 0) return;
  const int policy = sched_getscheduler(0);
  if (!schedule(SCHED_RR, kPriority)) return;
  policy_before_ = policy;
  priority_before_ = before.sched_priority;
}

Scope::~Scope() {
  if (policy_before_ >= 0) schedule(policy_before_, priority_before_);
}

Starter::Starter() {
  std::promise<bool> begun;
  Result<std::thread> thread = start_thread([&begun, work = work_.get_future()]() mutable {
    begun.set_value(schedule(SCHED_RR, kPriority));
    if (const std::function<void()> given = work.get()) given();
  });
  if (!thread) return;
  thread_ = std::move(*thread);
  is_realtime_ = begun.get_future().get();
}

Starter::~Starter() {
  if (!thread_.joinable()) return;
  work_.set_value({});
  thread_.join();
}

void Starter::run(const std::function<void()>& work) {
  if (!thread_.joinable()) return work();
  work_.set_value(work);
  thread_.join();
}

}  // namespace weir::realtime
