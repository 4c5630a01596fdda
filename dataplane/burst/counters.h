#pragma once

#include "common/counter.h"
#include "common/wire.h"

namespace weir::dataplane {

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

}  // namespace weir::dataplane
