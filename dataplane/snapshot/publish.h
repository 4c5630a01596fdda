#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/wire.h"
#include "dataplane/snapshot/ledger.h"
#include "dataplane/snapshot/snapshot_slot.h"
#include "dataplane/start/state_dir.h"
#include "filter/read/receive.h"

namespace weir::dataplane {

// The receiving end of DESIGN section 8: from a message with a descriptor, or from the state folder, to an enforced
// snapshot. Used by the control thread only, but for hold(). Whatever fails, the snapshot before it keeps enforcing.
class Publisher {
 public:
  Publisher(SnapshotSlot& slot, Ledger& ledger, const StateDir& state, std::vector<WorkerPlace> workers,
            uint64_t snapshot_memory)
      : slot_(slot), ledger_(ledger), state_(state), workers_(std::move(workers)), limit_bytes_(snapshot_memory / 2) {}

  // The answer to a publish message: enforced and durable, or the step that failed and why.
  wire::PublishedBody publish(const wire::Message& message);
  // Enforces the last good snapshot of the state folder. False when there is none.
  Result<bool> restore();

  // Two snapshots must fit the configured memory at a swap.
  uint64_t limit_bytes() const { return limit_bytes_; }

  // While it is held, the slot's current() and the ledger stay as they are; for threads that only read.
  [[nodiscard]] std::unique_lock<std::mutex> hold() const { return std::unique_lock(swap_); }

 private:
  std::optional<filter::Refusal> try_publish(const wire::Message& message, wire::PublishedBody& answer);
  Result<std::unique_ptr<Snapshot>> open(std::vector<Snapshot::Copy> copies, size_t size_bytes,
                                         const Digest& digest) const;

  SnapshotSlot& slot_;
  Ledger& ledger_;
  const StateDir& state_;
  std::vector<WorkerPlace> workers_;
  uint64_t limit_bytes_;
  mutable std::mutex swap_;
};

}  // namespace weir::dataplane
