#pragma once

#include <memory>

#include "dataplane/burst/burst.h"
#include "dataplane/ports/mbuf_pools.h"
#include "filter/probe/lookup.h"

namespace weir::dataplane {

// Receptions whose suspects one group may hold.
constexpr uint32_t kMaxReceptions = 8;

// The frames of one reception that wait in a group: from where those of the reception before end to `end`.
struct WaitingFrames {
  const Route* route;  // where they go
  uint64_t rx_cycles;  // the TSC before they were asked for; 0: their pass is not timed
  uint32_t end;
};

// Suspects of some receptions, which are looked up together. Its hit is clear before the first frame comes in.
struct SuspectGroup : Burst {
  WaitingFrames waiting[kMaxReceptions];  // ascending
  uint32_t receptions;
  uint32_t lookups_begun, lookups_matched;
};

// The frames that a gate lets through, in groups: a ring of a small fixed size. One group gathers the suspects of each
// reception, until it is looked up; the lookups of those before it are under way. Groups finish in the order in which
// they were looked up.
//
// A group refers to its snapshot: no quiescent state may be reported before all are out.
class Suspects {
 public:
  explicit Suspects(const filter::Kernels& kernels);

  bool empty() const noexcept { return looked_up_ == finished_ && gathering_->n == 0; }
  // Whether frames wait to be looked up.
  bool are_gathered() const noexcept { return gathering_->n != 0; }
  // Whether the group that gathers can take in so many frames of the reception, with their inner layers.
  bool has_room_for(const Burst& reception, uint32_t frames) const noexcept;
  // Copies these frames of a reception, at least one, behind those that wait. Returns the sum of their lengths.
  uint64_t append(Burst& reception, uint64_t frames, const Route& route, uint64_t rx_cycles) noexcept;
  // Asked after every reception: whether the group is full, or its suspects have waited for company long enough.
  bool are_due() noexcept { return gathering_->n != 0 && (gathering_->n == kMaxBurst || ++age_ >= kMaxReceptions); }

  // No group is free: one must leave before the next is looked up.
  bool full() const noexcept { return n_free_groups_ == 0; }
  // Begins all lookups of the group that gathers; another one gathers then. keys, probe, match: stages.h.
  void look_up(const WorkerSnapshot& snapshot) noexcept;
  // The lookups that are under way go on.
  void go_on() noexcept {
    if (pipeline_.empty()) return;
    pipeline_.tick();
    match_probed();
  }
  // All lookups that are under way end.
  void drain() noexcept {
    pipeline_.drain();
    match_probed();
  }
  // The oldest group, when all its lookups are matched; null otherwise. The caller gives it back by release().
  SuspectGroup* finished() noexcept;
  void release(SuspectGroup& group) noexcept;

 private:
  // Lookups wait for at most so many others behind them (LookupPipeline), and every group may have just one.
  static constexpr uint32_t kGroups = 16;
  static constexpr uint32_t kBatches = filter::LookupPipeline::kMaxInFlight;
  static_assert(kGroups * kMaxBurst + 2 * kMaxReceived <= kMostFramesHeld);

  // Columns of frames; each returns the sum of their lengths.
  uint64_t copy_some(const Burst& reception, uint64_t frames) noexcept;
  uint64_t copy_all(const Burst& reception) noexcept;
  void copy_headers(const Burst& reception, uint64_t frames) noexcept;
  void copy_layers(const Burst& reception, uint64_t frames) noexcept;
  void match_probed() noexcept;

  const filter::Kernels& kernels_;
  filter::LookupPipeline pipeline_;
  std::unique_ptr<SuspectGroup[]> groups_;
  std::unique_ptr<KeyBatch[]> batches_;
  // Free groups and batches. The one used last is on top, since the cache still has it.
  SuspectGroup* free_groups_[kGroups];
  KeyBatch* free_batches_[kBatches];
  uint32_t n_free_groups_ = 0, n_free_batches_ = 0;
  SuspectGroup* gathering_;
  SuspectGroup* ring_[kGroups];            // those that are looked up, by their number
  uint64_t looked_up_ = 0, finished_ = 0;  // groups
  uint32_t age_ = 0;                       // receptions since the first suspect that waits
};

}  // namespace weir::dataplane
