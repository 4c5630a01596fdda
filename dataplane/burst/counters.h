#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/histogram.h"
#include "common/wire.h"

namespace weir::dataplane {

// One writer (a worker), any number of readers. Compiles to one add.
class Counter {
 public:
  void add(uint64_t n) noexcept { value_.store(get() + n, std::memory_order_relaxed); }
  uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

// One writer, any number of readers. A reader sees every count that was there when it began.
class Histogram {
 public:
  void record(uint64_t value, uint64_t n) noexcept { counts_[bucket_of(value)].add(n); }
  // Those with a count.
  std::vector<Bucket> buckets() const {
    std::vector<Bucket> buckets;
    for (uint32_t i = 0; i < kHistogramBuckets; i++) {
      if (const uint64_t count = counts_[i].get(); count != 0) buckets.push_back({bucket_upper(i), count});
    }
    return buckets;
  }

 private:
  Counter counts_[kHistogramBuckets];
};

// Of one worker, in frames. packets = passed + dropped; what the names mean: docs/operate/dataplane.md, "Counters".
struct alignas(64) WorkerCounters {
  Counter packets, bytes, passed, dropped;
  Counter malformed, not_ip, incomplete, default_passed, default_dropped;
  Counter bypassed, no_snapshot_passed, no_snapshot_dropped;
  Counter tx_packets;    // passed, taken by the output port
  Counter tx_lost;       // passed, not taken by the output port
  Counter sunk;          // passed, freed because `forward: sink`
  Counter captured;      // dropped, taken by the drop_port
  Counter capture_lost;  // dropped, not taken by the drop_port
  Counter freed;         // dropped, no drop_port
  Counter rx_lost;       // received for another worker whose queue was full (spread.h); in none of those above

  // Every frame that came in left in exactly one way. Only true between bursts.
  bool balanced() const noexcept {
    return packets.get() == passed.get() + dropped.get() &&
           passed.get() == tx_packets.get() + tx_lost.get() + sunk.get() &&
           dropped.get() == captured.get() + capture_lost.get() + freed.get();
  }

  void add_to(wire::Totals& totals) const noexcept {
    totals.packets += packets.get();
    totals.bytes += bytes.get();
    totals.passed += passed.get();
    totals.dropped += dropped.get();
    totals.malformed += malformed.get();
    totals.not_ip += not_ip.get();
    totals.incomplete += incomplete.get();
    totals.default_passed += default_passed.get();
    totals.default_dropped += default_dropped.get();
    totals.bypassed += bypassed.get();
    totals.no_snapshot_passed += no_snapshot_passed.get();
    totals.no_snapshot_dropped += no_snapshot_dropped.get();
    totals.tx_packets += tx_packets.get();
    totals.tx_lost += tx_lost.get();
    totals.capture_lost += capture_lost.get();
    totals.rx_missed += rx_lost.get();
  }
};

// Frames and their bytes (without FCS).
struct Tally {
  Counter packets, bytes;
  void add(uint64_t n_packets, uint64_t n_bytes) noexcept {
    packets.add(n_packets);
    bytes.add(n_bytes);
  }
};

// Of one worker and one list of one snapshot.
struct alignas(64) ListCounters {
  Tally matched, dropped, passed, would_drop;

  void add_to(wire::ListStats& stats) const noexcept {
    stats.matched += matched.packets.get();
    stats.dropped += dropped.packets.get();
    stats.passed += passed.packets.get();
    stats.would_drop += would_drop.packets.get();
    stats.matched_bytes += matched.bytes.get();
    stats.dropped_bytes += dropped.bytes.get();
    stats.passed_bytes += passed.bytes.get();
    stats.would_drop_bytes += would_drop.bytes.get();
  }
};
static_assert(sizeof(ListCounters) == 64, "one cache line");

}  // namespace weir::dataplane
