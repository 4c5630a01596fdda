#pragma once

#include <cstdint>

#include "common/counter.h"
#include "common/wire.h"

namespace weir::dataplane {

// Frames and their bytes (without FCS).
struct Tally {
  Counter packets, bytes;
  void add(uint64_t n_packets, uint64_t n_bytes) noexcept {
    packets.add(n_packets);
    bytes.add(n_bytes);
  }
};

// Of one worker and one list of one snapshot: what a drop writes first, in one cache line.
struct alignas(64) ListCounters {
  Tally matched, dropped, dropped_alone, would_drop;
  Tally would_drop_alone, passed;

  void add_to(wire::ListStats& stats) const noexcept {
    stats.matched += matched.packets.get();
    stats.dropped += dropped.packets.get();
    stats.passed += passed.packets.get();
    stats.would_drop += would_drop.packets.get();
    stats.matched_bytes += matched.bytes.get();
    stats.dropped_bytes += dropped.bytes.get();
    stats.passed_bytes += passed.bytes.get();
    stats.would_drop_bytes += would_drop.bytes.get();
    stats.dropped_alone += dropped_alone.packets.get();
    stats.would_drop_alone += would_drop_alone.packets.get();
    stats.dropped_alone_bytes += dropped_alone.bytes.get();
    stats.would_drop_alone_bytes += would_drop_alone.bytes.get();
  }
};
static_assert(sizeof(ListCounters) == 128, "two cache lines");

}  // namespace weir::dataplane
