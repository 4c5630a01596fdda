#pragma once

#include <array>
#include <memory>

#include "dataplane/burst/burst.h"
#include "dataplane/ports/mbuf_pools.h"
#include "filter/probe/lookup.h"

namespace weir::dataplane {

// The frames that wait, in groups: a ring of a small fixed size. One group takes in what waits of each reception, until
// it is closed; the others' lookups are under way, and wait for memory while frames are received, parsed, and leave.
// Groups leave in the order in which they were closed.
//
// A group that is closed refers to its snapshot: no quiescent state may be reported before all are out.
class Flight {
 public:
  explicit Flight(const filter::Kernels& kernels);

  // Where the next reception is written, behind the frames that wait already. The caller closes it when there is no
  // room for one more (room_for), and pops what is finished after every reception.
  Burst& open() noexcept { return *open_; }
  // Asked after every reception while frames wait in it: whether it is to be closed, because it is full enough or its
  // frames have waited for company long enough. room: for frames of the next one.
  bool is_due(uint32_t room) noexcept { return open().n >= kMaxReceived || room < kLeastRoom || ++age_ >= kMaxTurns; }
  // True: a group must leave before another is closed (drain).
  bool full() const noexcept { return n_free_groups_ == 0; }
  bool empty() const noexcept { return closed_ == popped_ && open_->n == 0; }

  // lookups: closes the open group. Then, for each of its lookups, next_batch() gets the keys, and probe() starts the
  // lookup of those. match_probed() after each: what is finished, of this group or one before it. probing_done() after
  // the last one.
  Burst& close(const WorkerSnapshot& snapshot) noexcept;
  KeyBatch& next_batch() noexcept { return *free_batches_[n_free_batches_ - 1]; }
  void probe(KeyBatch& batch, filter::Lane& lane) noexcept;
  void match_probed() noexcept;
  void probing_done(uint32_t begun) noexcept;
  // No group was closed: the lookups that are under way go on.
  void tick() noexcept;
  // The oldest group when all its lookups are finished; null otherwise. The caller gives it back by release().
  Burst* pop() noexcept;
  void release(Burst& burst) noexcept;
  // Finishes and matches every lookup; pop() then gives all groups but the open one.
  void drain() noexcept;

 private:
  // Frames that can be received into an empty group, whatever they are.
  static constexpr uint32_t kLeastRoom = kMaxBurst / WEIR_MAX_LAYERS;
  // Lookups wait for at most so many others behind them (LookupPipeline), and every group may have just one.
  static constexpr uint32_t kGroups = 16;
  static constexpr uint32_t kBatches = filter::LookupPipeline::kMaxInFlight;
  static_assert(kGroups * kMaxBurst <= kMostFramesHeld);

  filter::LookupPipeline pipeline_;
  std::unique_ptr<Burst[]> groups_;
  std::unique_ptr<KeyBatch[]> batches_;
  // What is free, the one used last on top: it is in the cache still.
  Burst* free_groups_[kGroups];
  KeyBatch* free_batches_[kBatches];
  uint32_t n_free_groups_ = 0, n_free_batches_ = 0;
  Burst* open_;
  Burst* ring_[kGroups];              // those that are closed, by their number
  uint64_t closed_ = 0, popped_ = 0;  // groups
  uint32_t age_ = 0;
};

inline Burst& Flight::close(const WorkerSnapshot& snapshot) noexcept {
  Burst& burst = *open_;
  ring_[closed_++ % kGroups] = open_;
  open_ = free_groups_[--n_free_groups_];
  age_ = 0;
  burst.snapshot = &snapshot;
  burst.begun = 0;
  burst.matched_batches = 0;
  return burst;
}

inline void Flight::probe(KeyBatch& batch, filter::Lane& lane) noexcept {
  n_free_batches_--;
  batch.lane = &lane;
  batch.burst->begun++;
  pipeline_.push(&batch);
}

// A lookup is tested when the same lookup of the next group is hashed: frames were received and parsed in between.
inline void Flight::probing_done(uint32_t begun) noexcept {
  if (begun != 0) pipeline_.look_ahead(begun);
}

inline void Flight::release(Burst& burst) noexcept {
  free_groups_[n_free_groups_++] = &burst;
}

inline void Flight::tick() noexcept {
  if (pipeline_.empty()) return;
  pipeline_.tick();
  match_probed();
}

}  // namespace weir::dataplane
