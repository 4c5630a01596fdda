#pragma once

#include <cstdint>

#include "common/wire.h"
#include "dataplane/burst/burst.h"
#include "dataplane/burst/counters.h"
#include "dataplane/ports/port_plan.h"
#include "dataplane/snapshot/snapshot.h"

// The stages of a packet's way, one file each, in the order in which it meets them; loop.h runs them. None allocates,
// locks, logs, asks the time or calls the system. Every one works on all packets of a burst before the next begins.
namespace weir::dataplane {

// Before a burst's first frame.
void clear(Burst& burst) noexcept;
// Frames that may be received at once: with tunnels each may have all its layers.
uint32_t most_received(const Wants& wants) noexcept;

// The tables of gates whose lines parse asks for.
struct AskedTable {
  const uint64_t* bits;
  uint64_t multiplier;
  uint32_t n_words;
  uint8_t prefix_bits;
  Side side;
};
struct AskedTables {
  // Direct tables of IPv4, by side, which most policies have; null: none. The shift takes an address to its byte.
  const uint8_t* direct_v4[2] = {};
  uint32_t direct_shift[2] = {};
  // All others.
  uint32_t n_v4 = 0, n_v6 = 0;
  AskedTable v4[2 * WEIR_MAX_GATE_TABLES], v6[2 * WEIR_MAX_GATE_TABLES];

  bool empty() const noexcept { return direct_v4[0] == nullptr && direct_v4[1] == nullptr && n_v4 + n_v6 == 0; }
};
AskedTables asked_tables(const WorkerSnapshot& snapshot) noexcept;

// parse: what each frame is, and which packets are in its tunnels. Asks for the line of each address in the gates, one
// by one as it reads them: asked for all at once they would wait for each other, since a core asks for few at a time.
void parse(const Wants& wants, const AskedTables& gates, Burst& burst, WorkerCounters& counters) noexcept;
// The headers of the packet in the slot, which parse may have left for whoever asks: few packets are asked.
const Headers& headers_of(Burst& burst, uint32_t slot) noexcept;
// What lookups of IPv4 with ports or protocol ask for, of the packets in these slots that parse has not read yet.
void read_fields(uint64_t slots, Burst& burst) noexcept;

// gate: sets asked: the packets of which each side's lookups may find something. Returns the frames that have to wait
// for them, the suspects: all others are decided.
uint64_t ask_gates(const WorkerSnapshot& snapshot, const filter::Kernels& kernels, Burst& burst) noexcept;
// The same without a look at the gates: every packet is a suspect.
uint64_t suspect_all(Burst& burst) noexcept;

// For each lookup of the snapshot, with the probe of filter and exact-match table in between (suspects.h):
// keys: gathers the lookup's keys from the packets that are asked and have its fields; of a bitmap, which is asked
// here, those that it has. n is 0 when there are none.
void keys(const Lookup& lookup, const filter::Kernels& kernels, Burst& burst, KeyBatch& batch) noexcept;
// match: gives the lists of the keys that are really there to their packets; where a replacing lookup has found one,
// the next lookup gives none.
void match(const KeyBatch& batch) noexcept;
// The lists that match the packet in the slot, which has a hit.
inline const weir_set& lists_of(const Burst& burst, uint32_t slot) noexcept {
  const uint32_t id = burst.set_id[slot];
  return id != 0 ? burst.snapshot->set(id) : burst.matched[slot];
}

// verdict: of these frames (docs/use/policy.md), and its counters. Sets drop, of these frames. bytes: sum of their
// lengths.
void verdict(Burst& burst, uint64_t frames, uint64_t bytes, WorkerCounters& counters) noexcept;
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

// leave: the pointers of these frames, of n, in their order. Up to kPackRoom behind them are written, too.
inline void pack(const filter::Kernels& kernels, rte_mbuf* const* pkt, uint64_t frames, uint32_t n,
                 rte_mbuf** to) noexcept {
  kernels.pack(reinterpret_cast<const uint64_t*>(pkt), frames, n, reinterpret_cast<uint64_t*>(to));
}
// tx: sends frames that passed, or frees them where the route ends; each exactly once. The array
// means nothing afterwards.
void send(const Route& route, rte_mbuf** frames, uint32_t n, WorkerCounters& counters) noexcept;
// The same of frames that drop: to the drop_port, where there is one.
void discard(const Route& route, rte_mbuf** frames, uint32_t n, WorkerCounters& counters) noexcept;

}  // namespace weir::dataplane
