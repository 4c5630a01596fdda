#include "dataplane/snapshot/snapshot_slot.h"

#include <rte_pause.h>
#include <rte_rcu_qsbr.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace weir::dataplane {

void SnapshotSlot::Free::operator()(rte_rcu_qsbr* rcu) const {
  free(rcu);
}

Result<std::unique_ptr<SnapshotSlot>> SnapshotSlot::make(uint32_t max_workers) {
  std::unique_ptr<SnapshotSlot> slot(new SnapshotSlot);
  const size_t size_bytes = rte_rcu_qsbr_get_memsize(max_workers);  // a multiple of the cache line
  slot->rcu_.reset(static_cast<rte_rcu_qsbr*>(aligned_alloc(RTE_CACHE_LINE_SIZE, size_bytes)));
  if (!slot->rcu_ || rte_rcu_qsbr_init(slot->rcu_.get(), max_workers) != 0) {
    return Error{"cannot make the RCU variable for " + std::to_string(max_workers) + " workers"};
  }
  // Once for all: a registered thread that is offline holds nobody up, and what is inline orders readers and free.
  for (uint32_t worker = 0; worker < max_workers; worker++) {
    if (rte_rcu_qsbr_thread_register(slot->rcu_.get(), worker) != 0) {
      return Error{"cannot register worker " + std::to_string(worker) + " with the RCU variable"};
    }
  }
  return slot;
}

SnapshotSlot::~SnapshotSlot() {
  delete shadow_.load(std::memory_order_relaxed);
  delete current_.load(std::memory_order_relaxed);
}

void SnapshotSlot::online(uint32_t worker) noexcept {
  rte_rcu_qsbr_thread_online(rcu_.get(), worker);
}

void SnapshotSlot::offline(uint32_t worker) noexcept {
  rte_rcu_qsbr_thread_offline(rcu_.get(), worker);
}

void SnapshotSlot::quiescent(uint32_t worker) noexcept {
  rte_rcu_qsbr_quiescent(rcu_.get(), worker);
}

std::unique_ptr<Snapshot> SnapshotSlot::exchange(std::unique_ptr<Snapshot> next) {
  return std::unique_ptr<Snapshot>(current_.exchange(next.release(), std::memory_order_acq_rel));
}

std::unique_ptr<ShadowRun> SnapshotSlot::exchange_shadow(std::unique_ptr<ShadowRun> next) {
  return std::unique_ptr<ShadowRun>(shadow_.exchange(next.release(), std::memory_order_acq_rel));
}

// rte_rcu_qsbr_synchronize() in its two inline halves, so that ThreadSanitizer sees what orders readers and free.
// Workers are done with a burst in microseconds: the first looks do not sleep.
bool SnapshotSlot::wait_for_readers(const std::function<bool()>& give_up) {
  constexpr int kLooksAwake = 1000;
  constexpr std::chrono::microseconds kRest{50};
  token_ = rte_rcu_qsbr_start(rcu_.get());
  for (int look = 0; !are_readers_gone(); look++) {
    if (look < kLooksAwake) {
      rte_pause();
      continue;
    }
    if (give_up && give_up()) return false;
    std::this_thread::sleep_for(kRest);
  }
  return true;
}

bool SnapshotSlot::are_readers_gone() {
  return rte_rcu_qsbr_check(rcu_.get(), token_, false) == 1;
}

}  // namespace weir::dataplane
