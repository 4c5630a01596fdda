#pragma once

#include <cstdint>

#include "common/wire.h"
#include "dataplane/burst/burst.h"
#include "dataplane/burst/counters.h"
#include "dataplane/ports/port_plan.h"
#include "dataplane/snapshot/snapshot.h"

// The stages of a burst, one file each, in the order a packet meets them. None allocates, locks, logs, asks the time or
// calls the system. Every one works on all frames of the burst before the next begins.
namespace weir::dataplane {

class Flight;

// rx: up to kMaxBurst frames of the queue; fills n, pkt, bytes. Returns n.
uint32_t rx(PortQueue queue, Burst& burst) noexcept;

// parse: what each frame is, and which packets are in its tunnels. Takes the frames that find no slot off the burst:
// n_carried (Flight::carry_over). At least 16 frames stay, or all.
void parse(const Wants& wants, Burst& burst, WorkerCounters& counters) noexcept;
// The headers of the packet in the slot, which parse may have left for whoever asks: few packets are asked.
const Headers& headers_of(Burst& burst, uint32_t slot) noexcept;

// For each lookup of the snapshot, with the probe of filter and exact-match table in between (flight.h):
// keys: gathers the lookup's keys from the packets that have its fields. n is 0 when none has.
void keys(const Lookup& lookup, Burst& burst, KeyBatch& batch) noexcept;
// match: gives the lists of the keys that are really there to their packets.
void match(const KeyBatch& batch) noexcept;
// keys, probe, match: takes flight.next(), parsed, and starts its lookups; those that are finished by then, its own or
// of bursts before it, are matched.
void look_up(const WorkerSnapshot& snapshot, const Route& route, Flight& flight) noexcept;
// The lists that match the packet in the slot, which has a hit.
inline const weir_set& lists_of(const Burst& burst, uint32_t slot) noexcept {
  const uint32_t id = burst.set_id[slot];
  return id != 0 ? burst.snapshot->view->set(id) : burst.matched[slot];
}

// verdict: DESIGN section 4, steps 1 to 5, and the counters that go with them.
void verdict(const WorkerSnapshot& snapshot, Burst& burst, WorkerCounters& counters) noexcept;
// The same verdict for every frame, unread: bypass, or no snapshot. reason: its counter.
void verdict_for_all(bool pass, Burst& burst, Counter& reason, WorkerCounters& counters) noexcept;

// What the drop of frame i is credited to, after verdict(), and the packet that did it; for few frames.
struct DropCredit {
  wire::DroppedBy by;
  uint32_t list;  // by list: its index
  uint32_t slot;  // of the layer that drops; not by unparsed or no_snapshot
  uint8_t layer;  // 0: the outer one
};
DropCredit why_dropped(const WorkerSnapshot& snapshot, const Burst& burst, uint32_t i) noexcept;

// tx: sends or frees every frame of the burst exactly once.
void tx(const Route& route, Burst& burst, WorkerCounters& counters) noexcept;

}  // namespace weir::dataplane
