#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "common/bits.h"
#include "dataplane/frame/tunnel.h"
#include "filter/format/snapshot.h"
#include "filter/probe/lookup.h"

namespace weir::dataplane {

struct Route;
struct WorkerSnapshot;

// Frames asked for at a time; at most the width of a mask, and of a filter batch.
constexpr uint32_t kMaxBurst = 64;
static_assert(kMaxBurst <= 64 && kMaxBurst <= filter::kMaxBatch);

// Columns; the tag is the stage that fills the field. Masks: bit i belongs to frame i.
//
// Packets are in slots. Slot i is frame i, its outer layer; the inner layers of frames with tunnels take the slots from
// the top, 63, 62, ... When the two meet, the frames that are left make the next burst.
struct Burst {
  uint32_t n;                // rx      0..kMaxBurst
  uint64_t bytes;            // rx      sum of frame lengths, without FCS
  rte_mbuf* pkt[kMaxBurst];  // rx      owned here until tx sends or frees each exactly once
  uint64_t now_unix_s;       // rx      what `expires` is compared with
  uint64_t rx_cycles;        // rx      the TSC before it was asked for; 0: its pass is not timed

  uint32_t n_carried;          // parse   frames behind the n that found no slot: pkt[n], pkt[n + 1], ...
  uint64_t not_ip;             // parse
  uint64_t malformed;          // parse
  uint64_t incomplete;         // parse   frames with headers: in some layer
  uint64_t layered;            // parse   frames with inner layers
  uint32_t first_inner;        // parse   slots from here on hold inner layers
  uint8_t inner[kMaxBurst];    // parse   slot of the frame's first inner layer; those inside it lie below
  uint8_t n_inner[kMaxBurst];  // parse   both valid where `layered`
  uint32_t n_v4;               // parse
  uint32_t n_v6;               // parse
  uint8_t v4[kMaxBurst];       // parse   slots that are IPv4
  uint8_t v6[kMaxBurst];       // parse   slots that are IPv6
  uint64_t unread;             // parse   slots of plain IPv4 frames whose hdr is not there yet: headers_of
  Headers
      hdr[kMaxBurst];  // parse   by slot; big-endian as on the wire; valid for frames with headers, and of inner layers
  // What keys of IPv4 are made of: of the packet in slot v4[k], as on the wire.
  alignas(16) uint64_t v4_addresses[kMaxBurst];  // parse  source in the low half, destination in the high half
  alignas(16) uint64_t v4_fields[kMaxBurst];  // parse  port[0], port[1], protocol, from the lowest byte; Wants::fields
  uint64_t v4_ports;                          // parse  bit k: it has ports; Wants::fields
  uint64_t hit;                               // parse clears, match sets: slots with a match
  // The lists that match: most packets match by one key only, and what it matches is a set of the snapshot. lists_of.
  uint32_t set_id[kMaxBurst];   // match   by slot: that set, 0: `matched` has it; valid where `hit`
  weir_set matched[kMaxBurst];  // match   by slot; valid where `hit` and set_id is 0

  const WorkerSnapshot* snapshot;  // probe   what it is judged by
  const Route* route;              // probe   where it goes then
  uint32_t batches;                // probe   lookups begun
  uint32_t waiting;                // probe   as batches, match takes off: those not finished

  uint64_t drop;  // verdict
};

// One lookup of a burst: the keys of one shape, taken from one side of its packets.
struct KeyBatch : filter::Batch {
  Burst* burst = nullptr;          // keys
  Side side = kSource;             // keys
  uint8_t key_of[kMaxBurst] = {};  // keys    slot of key k
};

}  // namespace weir::dataplane
