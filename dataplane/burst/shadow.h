#pragma once

#include <cstdint>

#include "dataplane/burst/passage.h"
#include "dataplane/snapshot/shadow_run.h"

namespace weir::dataplane {

// Judges frames once more, by a candidate, and compares: what differs is counted and sampled (docs/operate/shadow.md).
// The frames are only read. A passage of its own, so nothing of the running verdict, its counters or its groups is
// touched; and all that goes in comes out again before judge() returns, so no reference into the candidate outlives it.
class ShadowJudge {
 public:
  ShadowJudge(const filter::Kernels& kernels, uint32_t worker);

  // frames: of the burst, judged by what runs, still owned by the worker.
  void judge(ShadowRun& run, Burst& burst, uint64_t frames, const WorkerSnapshot& running,
             const Route& route) noexcept {
    ShadowOfWorker& counts = run.of_worker(worker_);
    if (is_chosen(run.one_in(), counts)) judge_chosen(run, counts, burst, frames, running, route);
  }

 private:
  // Of every one_in batches in a row, one at a random place: traffic with a period cannot fall into step with it.
  static bool is_chosen(uint32_t one_in, ShadowOfWorker& counts) noexcept;
  void judge_chosen(ShadowRun& run, ShadowOfWorker& counts, Burst& burst, uint64_t frames,
                    const WorkerSnapshot& running, const Route& route) noexcept;

  // Where the candidate's verdicts come out.
  struct Out {
    ShadowOfWorker* counts;
    Burst* burst;  // of what runs, and which of its slots are being judged: these, from the lowest on
    const WorkerSnapshot* running;
    const Route* route;
    uint8_t slots[kMaxReceived];
    uint64_t left;  // of `slots`: places that no verdict came out for yet
    uint64_t ticks;

    void judged(Burst& theirs, uint64_t frames, const WorkerSnapshot& candidate, const Route&) noexcept;
    template <class Watch>
    void leave(const Route&, uint64_t, rte_mbuf**, uint32_t, uint64_t, Watch&) noexcept {}
    void note(uint32_t slot, Burst& theirs, uint32_t their_slot, const WorkerSnapshot& candidate) noexcept;
  };

  uint32_t worker_;
  WorkerCounters counters_;  // of the passage; nobody asks for them
  Out out_ = {};
  Passage<Out> passage_;
};

}  // namespace weir::dataplane
