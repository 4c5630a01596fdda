#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/digest.h"
#include "common/result.h"
#include "common/wire.h"
#include "dataplane/snapshot/copies.h"
#include "dataplane/snapshot/list_counters.h"
#include "dataplane/snapshot/lookups.h"
#include "dataplane/snapshot/probe_counters.h"
#include "filter/probe/lookup.h"
#include "filter/read/view.h"

namespace weir::dataplane {

// Set ids of base and overlay are different ones: this bit says that it is the overlay's.
constexpr uint32_t kOfOverlay = uint32_t{1} << 31;

// What one worker needs of a snapshot. Borrowed from a Snapshot; valid until the worker's next quiescent state.
struct WorkerSnapshot {
  const filter::SnapshotView* view;     // of the base; lists and defaults are the overlay's, too
  const filter::SnapshotView* overlay;  // null: there is none
  const filter::GateView* gates[WEIR_GATES];
  std::span<const Lookup> lookups;
  std::span<filter::Lane> lanes;          // of the lookups; this worker's
  std::span<ProbeCounter* const> probes;  // of the lookups, this worker's; null: of a bitmap
  ListCounters* lists;                    // by list index; written by this worker only
  Wants wants;

  const filter::GateView& gate(uint32_t family, uint32_t side) const noexcept {
    return *gates[weir_gate_number(family, side)];
  }
  const weir_set& set(uint32_t id) const noexcept {
    return (id & kOfOverlay) == 0 ? view->set(id) : overlay->set(id & ~kOfOverlay);
  }
  wire::Generation generation() const noexcept {
    const weir_snapshot_header& header = (overlay != nullptr ? overlay : view)->header();
    return {header.epoch, header.number};
  }
};

// What is enforced: a base, perhaps with an overlay, and counters for each worker. When only the overlay is another
// one, the snapshot before and the next share the base's copies.
class Snapshot {
 public:
  using Copy = Copies::Copy;
  static Result<std::vector<Copy>> allocate(size_t size_bytes, std::span<const WorkerPlace> workers) {
    return Copies::allocate(size_bytes, workers);
  }
  // Of a base alone, whose copies are not validated yet.
  static Result<std::unique_ptr<Snapshot>> open(std::vector<Copy> copies, size_t size_bytes, const Digest& digest,
                                                std::span<const WorkerPlace> workers);
  // overlay: null where there is none; else it is checked whether it stands on the base, and its keys are joined to the
  // base's gates: workers who ask these meanwhile look up a few packets more. The base's bytes do not have their digest
  // any more then. before: what is enforced until then; where it has the same base, what was asked of that is counted
  // on.
  static Result<std::unique_ptr<Snapshot>> open(std::shared_ptr<const Copies> base,
                                                std::shared_ptr<const Copies> overlay,
                                                std::span<const WorkerPlace> workers, const Snapshot* before = nullptr);

  const WorkerSnapshot& of_worker(uint32_t worker) const noexcept { return workers_[worker]; }
  uint32_t workers() const noexcept { return static_cast<uint32_t>(workers_.size()); }

  const std::shared_ptr<const Copies>& base() const { return base_; }
  const Copies* overlay() const { return overlay_.get(); }
  // The generation's own bytes: the overlay's, where there is one.
  const Copies& newest() const { return overlay_ ? *overlay_ : *base_; }
  wire::Generation generation() const { return newest().generation(); }
  std::span<const weir_list> lists() const { return base_->view().lists(); }
  size_t size_bytes() const { return base_->size_bytes() + (overlay_ ? overlay_->size_bytes() : 0); }
  // Sum over the workers, by list index; names filled.
  std::vector<wire::ListStats> list_stats() const;
  // What was asked of the filters: of the base, then of the overlay. One thread. now_s: of a clock that never goes
  // back.
  std::vector<wire::ShapeProbes> probes(uint64_t now_s) const;

 private:
  // For the workers of a node.
  struct OfNode {
    int numa_node;
    std::vector<Lookup> lookups;
  };
  void add_worker(const WorkerPlace& worker);

  std::shared_ptr<const Copies> base_, overlay_;
  std::vector<OfNode> nodes_;
  std::vector<WorkerSnapshot> workers_;
  std::vector<std::vector<ListCounters>> counters_;  // [worker][list]
  std::vector<std::vector<filter::Lane>> lanes_;     // [worker][lookup]
  std::vector<std::vector<ProbeCounter*>> probes_;   // [worker][lookup]
  // One for both NUMA nodes' copies. A base's outlives its overlays: several snapshots have it, whose workers, each at
  // one of them at a time, write their own part.
  std::shared_ptr<ProbeCounters> base_probes_, overlay_probes_;
};

}  // namespace weir::dataplane
