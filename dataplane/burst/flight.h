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
  Burst& open() noexcept { return groups_[closed_ % kGroups]; }
  // Asked after every reception while frames wait in it: whether it is to be closed, because it is full enough or its
  // frames have waited for company long enough. room: for frames of the next one.
  bool is_due(uint32_t room) noexcept { return open().n >= kMaxReceived || room < kLeastRoom || ++age_ >= kMaxTurns; }
  // True: a group must leave before another is closed (drain).
  bool full() const noexcept { return closed_ - popped_ == kGroups - 1; }
  bool empty() const noexcept { return closed_ == popped_ && groups_[closed_ % kGroups].n == 0; }

  // lookups: closes the open group. Then, for each of its lookups, next_batch() gets the keys, and probe() starts the
  // lookup of those; what probed() gives in between is finished, of this group or one before it, and is for match() at
  // once. probing_done() after the last one.
  Burst& close(const WorkerSnapshot& snapshot) noexcept;
  KeyBatch& next_batch() noexcept { return batches_[begun_ % kBatches]; }
  void probe(KeyBatch& batch, filter::Lane& lane) noexcept;
  KeyBatch* probed() noexcept { return static_cast<KeyBatch*>(pipeline_.pop()); }
  void probing_done(const Burst& burst) noexcept;
  // No group was closed: the lookups that are under way go on.
  void tick() noexcept;
  // The oldest group when all its lookups are finished; null otherwise. It may be open() again from then on.
  Burst* pop() noexcept;
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
  uint64_t closed_ = 0, popped_ = 0;  // groups
  uint64_t begun_ = 0;                // batches
  uint32_t age_ = 0;
};

inline Burst& Flight::close(const WorkerSnapshot& snapshot) noexcept {
  Burst& burst = open();
  closed_++;
  age_ = 0;
  burst.snapshot = &snapshot;
  burst.waiting = burst.batches = 0;
  if (pipeline_.empty()) begun_ = 0;  // those used last are in the cache still
  return burst;
}

inline void Flight::probe(KeyBatch& batch, filter::Lane& lane) noexcept {
  begun_++;
  batch.lane = &lane;
  batch.burst->waiting++;
  batch.burst->batches++;
  pipeline_.push(&batch);
}

// A lookup is tested when the same lookup of the next group is hashed: frames were received and parsed in between.
inline void Flight::probing_done(const Burst& burst) noexcept {
  if (burst.batches != 0) pipeline_.look_ahead(burst.batches);
}

inline void Flight::tick() noexcept {
  if (!pipeline_.empty()) pipeline_.tick();
}

}  // namespace weir::dataplane
