#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "common/result.h"
#include "dataplane/snapshot/shadow_run.h"
#include "dataplane/snapshot/snapshot.h"

struct rte_rcu_qsbr;

namespace weir::dataplane {

// The pointer that all workers read and the control thread exchanges. Readers never wait: the control thread frees an
// old snapshot after every online worker has reported a quiescent state (RCU QSBR, rte_rcu_qsbr.h).
class SnapshotSlot {
 public:
  static Result<std::unique_ptr<SnapshotSlot>> make(uint32_t max_workers);
  ~SnapshotSlot();

  // Worker side. online() before the first acquire(); no reference is held across quiescent() or offline().
  void online(uint32_t worker) noexcept;
  void offline(uint32_t worker) noexcept;
  void quiescent(uint32_t worker) noexcept;
  const Snapshot* acquire() const noexcept { return current_.load(std::memory_order_acquire); }
  // What judges beside it, or null; likewise.
  ShadowRun* acquire_shadow() const noexcept { return shadow_.load(std::memory_order_acquire); }

  // Control side, one thread. current(): what is enforced now, or null.
  const Snapshot* current() const { return current_.load(std::memory_order_relaxed); }
  // Returns the former one, which no worker enters any more; wait_for_readers() before it is read for good or freed.
  std::unique_ptr<Snapshot> exchange(std::unique_ptr<Snapshot> next);
  std::unique_ptr<ShadowRun> exchange_shadow(std::unique_ptr<ShadowRun> next);
  ShadowRun* shadow() const { return shadow_.load(std::memory_order_relaxed); }
  // One grace period, or until give_up() says so, which is asked every so often. False: it is not over.
  bool wait_for_readers(const std::function<bool()>& give_up = nullptr);
  // The one that was given up is over by now.
  bool are_readers_gone();

 private:
  SnapshotSlot() = default;
  struct Free {
    void operator()(rte_rcu_qsbr* rcu) const;
  };
  std::unique_ptr<rte_rcu_qsbr, Free> rcu_;
  uint64_t token_ = 0;  // of the last grace period
  std::atomic<Snapshot*> current_ = nullptr;
  std::atomic<ShadowRun*> shadow_ = nullptr;
};

}  // namespace weir::dataplane
