#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/burst/stages.h"
#include "dataplane/snapshot/shadow_run.h"
#include "filter/probe/lookup.h"

namespace weir::dataplane {

// Judges frames once more, by a candidate, and compares: what differs is counted and sampled (docs/operate/shadow.md).
// The frames are only read. They have a burst of their own, so nothing of the running verdict or its counters is
// touched; and they are looked up at once, so no reference into the candidate outlives judge().
class ShadowJudge {
 public:
  ShadowJudge(const filter::Kernels& kernels, uint32_t worker);

  // frames: of the burst, judged by what runs, still owned by the worker.
  void judge(ShadowRun& run, Burst& burst, uint64_t frames, const Route& route) noexcept {
    ShadowOfWorker& counts = run.of_worker(worker_);
    if (is_chosen(run.one_in(), counts)) judge_chosen(run, counts, burst, frames, route);
  }

 private:
  // Of every one_in batches in a row, one at a random place: traffic with a period cannot fall into step with it.
  static bool is_chosen(uint32_t one_in, ShadowOfWorker& counts) noexcept;
  void judge_chosen(ShadowRun& run, ShadowOfWorker& counts, Burst& burst, uint64_t frames, const Route& route) noexcept;
  void judge_theirs(const WorkerSnapshot& candidate) noexcept;
  // Counts and samples a frame whose verdicts differ. ticks: when it was judged.
  void note(ShadowOfWorker& counts, Burst& burst, uint32_t slot, uint32_t their_slot, const Route& route,
            uint64_t ticks) noexcept;

  const filter::Kernels& kernels_;
  uint32_t worker_;
  WorkerCounters counters_;          // of the candidate's verdicts; nobody asks for them
  filter::LookupPipeline pipeline_;  // looks nothing up later
  const std::unique_ptr<KeyBatch> keys_;
  const std::unique_ptr<Burst> theirs_;  // as the candidate judges them
};

}  // namespace weir::dataplane
