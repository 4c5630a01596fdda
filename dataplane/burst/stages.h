#pragma once

#include <cstdint>

#include "common/wire.h"
#include "dataplane/burst/burst.h"
#include "dataplane/burst/counters.h"
#include "dataplane/ports/port_plan.h"
#include "dataplane/snapshot/snapshot.h"

// The stages of a reception, one file each, in the order a packet meets them. None allocates, locks, logs, asks the
// time or calls the system. Every one works on all frames before the next begins.
namespace weir::dataplane {

class Flight;

// Before a group's first frame.
void clear(Burst& burst) noexcept;
// Frames that may be received into the group: 0..kMaxReceived. With tunnels each may have all its layers.
uint32_t room_for(const Wants& wants, const Burst& burst) noexcept;

// rx: up to `most` frames of the queue, behind those that wait. How many.
uint32_t rx(PortQueue queue, uint32_t most, Burst& burst) noexcept;

// parse: what each frame from slot `first` on is, and which packets are in its tunnels. Returns the sum of their
// lengths.
uint64_t parse(const Wants& wants, uint32_t first, Burst& burst, WorkerCounters& counters) noexcept;
// The headers of the packet in the slot, which parse may have left for whoever asks: few packets are asked.
const Headers& headers_of(Burst& burst, uint32_t slot) noexcept;

// What lookups of IPv4 with ports or protocol ask for, of the packets in these slots that parse has not read yet.
void read_fields(uint64_t slots, Burst& burst) noexcept;

// gate: which lookups may find something of the packets from slot `first` on (asked), and so which frames have to wait
// for them: all others are decided. bytes: sum of the lengths of those that wait.
struct Waiting {
  uint64_t frames, bytes;
};
Waiting gate(const WorkerSnapshot& snapshot, const filter::Kernels& kernels, uint32_t first, Burst& burst) noexcept;
// The same for packets that come to all lookups.
Waiting go_around_gates(uint32_t first, Burst& burst) noexcept;

// verdict_at_once: frames that do not wait: no list matches them. Sets drop, of these frames; counts. bytes: of them.
void verdict_at_once(const WorkerSnapshot& snapshot, uint64_t frames, uint64_t bytes, Burst& burst,
                     WorkerCounters& counters) noexcept;

// take_out: of the frames from slot `first` on, those that do not wait leave, in their order, and the others close up.
struct Leaving {
  rte_mbuf** frames;  // in `room`, or in the burst until something is received into it
  uint32_t n;
};
constexpr uint32_t kLeavingRoom = kMaxReceived + 4;
Leaving take_out(uint32_t first, uint64_t waiting, Burst& burst, rte_mbuf* room[kLeavingRoom]) noexcept;

// For each lookup of the snapshot, with the probe of filter and exact-match table in between (flight.h):
// keys: gathers the lookup's keys from the packets that are asked and have its fields; of a bitmap, which is asked
// here, those that it has. n is 0 when there are none.
void keys(const Lookup& lookup, const filter::Kernels& kernels, Burst& burst, KeyBatch& batch) noexcept;
// match: gives the lists of the keys that are really there to their packets; where a replacing lookup has found one,
// the next lookup gives none.
void match(const KeyBatch& batch) noexcept;
// keys, probe, match: closes flight.open() and starts its lookups; those that are finished by then, its own or of
// groups before it, are matched.
void look_up(const WorkerSnapshot& snapshot, const filter::Kernels& kernels, Flight& flight) noexcept;
// The lists that match the packet in the slot, which has a hit.
inline const weir_set& lists_of(const Burst& burst, uint32_t slot) noexcept {
  const uint32_t id = burst.set_id[slot];
  return id != 0 ? burst.snapshot->set(id) : burst.matched[slot];
}

// verdict: for each frame of a group that waited, the verdict (docs/use/policy.md) and its counters.
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
// The same of a verdict of either kind: `by` is what it is, or of a frame that passed, what passed it.
using VerdictCredit = DropCredit;
VerdictCredit credit_of(const WorkerSnapshot& snapshot, const Burst& burst, uint32_t i, bool dropped) noexcept;

// tx: sends or frees each of the frames exactly once; bit i of `drop`: frame i is dropped. 1 <= n <= kMaxBurst; what is
// in `frames` afterwards means nothing.
void tx(const Route& route, rte_mbuf** frames, uint32_t n, uint64_t drop, WorkerCounters& counters) noexcept;

}  // namespace weir::dataplane
