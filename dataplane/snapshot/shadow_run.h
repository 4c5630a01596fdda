#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/counter.h"
#include "common/shadow.h"
#include "dataplane/snapshot/list_counters.h"
#include "dataplane/snapshot/ring.h"
#include "dataplane/snapshot/snapshot.h"

namespace weir::dataplane {

// What verdicts are credited to besides lists: enum wire::DroppedBy, from default_action on.
constexpr size_t kReasons = 3;

// What one worker counts of a shadow, and what it samples. It writes, and the control thread reads.
struct ShadowOfWorker {
  Counter batches, packets, bytes, cycles;
  Tally newly_dropped, newly_passed;
  Counter lost;  // differing frames without a sample: no room
  // By what the verdict to drop is credited to: the lists of the snapshot that drops, then kReasons.
  std::vector<Tally> dropped_by, passed_by;
  Ring<wire::ShadowSample, 64> samples;  // time_unix_ns holds ticks until they are told

  // The worker's.
  uint32_t batches_left = 0;  // of those of which one is judged
  uint32_t chosen = 0;        // that one: so many are left when it comes
  uint64_t random = 0x9e3779b97f4a7c15;
};

// A candidate, and what workers find that it would decide otherwise than the policy that runs beside it.
class ShadowRun {
 public:
  // beside: only verdicts of this snapshot are compared, and of others with the same base. one_in: of so many batches
  // of frames one is judged.
  ShadowRun(std::shared_ptr<const Snapshot> candidate, uint32_t one_in, const Snapshot& beside);

  const std::shared_ptr<const Snapshot>& candidate() const noexcept { return candidate_; }
  uint32_t one_in() const noexcept { return one_in_; }
  bool is_beside(uint32_t worker, const WorkerSnapshot& running) const noexcept {
    return workers_[worker].lists_of == running.view;
  }
  bool is_beside(const Snapshot& running) const noexcept { return beside_ == running.base(); }
  ShadowOfWorker& of_worker(uint32_t worker) noexcept { return *workers_[worker].counts; }

  // Adds what was counted so far.
  void add_to(wire::Shadow& counts) const;
  // Moves at most so many samples behind those in `samples`, oldest first.
  void drain(size_t most, std::vector<wire::ShadowSample>& samples);

 private:
  struct One {
    const filter::SnapshotView* lists_of;  // of the base that runs
    std::unique_ptr<ShadowOfWorker> counts;
  };
  std::shared_ptr<const Snapshot> candidate_;
  uint32_t one_in_;
  std::shared_ptr<const Copies> beside_;  // its lists name what is counted
  std::vector<One> workers_;
};

}  // namespace weir::dataplane
