#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/fd.h"
#include "common/result.h"
#include "dataplane/snapshot/snapshot.h"
#include "dataplane/start/state_dir.h"

namespace weir::dataplane {

// What is enforced, in the state folder: `snapshot.weir` and, in a file that is named by it, the overlay that stands on
// it. They are written in such an order that at every moment both together are what was acknowledged last, or what
// came after it.
class Saved {
 public:
  explicit Saved(const StateDir& state) : state_(state) {}

  // Opens what is there; null when there is nothing. limit_bytes: for snapshot and overlay together. An overlay that
  // cannot be used is said, and what it stands on is enforced without it: older than what was acknowledged, and more
  // than nothing. It is kept aside when its bytes are wrong.
  Result<std::unique_ptr<Snapshot>> restore(std::span<const WorkerPlace> workers, uint64_t limit_bytes);

  // received: the bytes of the base that is to be saved next, which nobody changes: its own copies lose their digest
  // when an overlay is joined. They are kept until they are on disk.
  void take_base(Mapping received) { base_ = std::move(received); }
  // Until it succeeds what is enforced would not outlive a restart.
  Result<void> save(const Snapshot& snapshot);

 private:
  std::shared_ptr<const Copies> restore_overlay(const Copies& base, std::span<const WorkerPlace> workers,
                                                uint64_t limit_bytes) const;
  void set_aside(const Copies& base, const std::string& why) const;

  const StateDir& state_;
  Mapping base_;               // not on disk yet; empty: it is
  bool others_remain_ = true;  // overlays of former bases
};

}  // namespace weir::dataplane
