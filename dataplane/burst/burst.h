#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "common/bits.h"
#include "dataplane/snapshot/lookups.h"
#include "filter/format/snapshot.h"
#include "filter/frame/tunnel.h"
#include "filter/probe/lookup.h"

namespace weir::dataplane {

using filter::has;
using filter::Headers;
using filter::InnerLayers;
using filter::Outcome;

class ProbeCounter;
struct Route;
struct WorkerSnapshot;

// Slots of a group of frames; at most the width of a mask, and of a filter batch.
constexpr uint32_t kMaxBurst = 64;
static_assert(kMaxBurst <= 64 && kMaxBurst <= filter::kMaxBatch);

// Frames that are received at a time.
constexpr uint32_t kMaxReceived = 64;

// Packets in columns: of one reception, or of a group of suspects (suspects.h). The tag is the stage that fills the
// field. Masks: bit i belongs to slot i.
//
// Packets are in slots. Slot i is frame i, its outer layer; the inner layers of frames with tunnels take the slots from
// the top, 63, 62, ...
struct Burst {
  uint32_t n;                             // rx      0..kMaxBurst
  rte_mbuf* pkt[kMaxBurst];               // rx      each is sent or freed exactly once
  alignas(16) uint32_t bytes[kMaxBurst];  // append  length of the frame, without FCS, of suspects
  uint64_t total_bytes;                   // parse   sum of the frames' lengths
  uint64_t now_unix_s;                    // rx      what `expires` is compared with
  const WorkerSnapshot* snapshot;         // rx      what it is judged by; null: nothing does

  uint64_t not_ip;             // parse   frames
  uint64_t malformed;          // parse   frames
  uint64_t incomplete;         // parse   frames with headers: in some layer
  uint64_t layered;            // parse   frames with inner layers
  uint64_t in_line;            // parse   frames that wait in any case: others of their flow may have to
  uint32_t first_inner;        // parse   slots from here on hold inner layers
  uint8_t inner[kMaxBurst];    // parse   slot of the frame's first inner layer; those inside it lie below
  uint8_t n_inner[kMaxBurst];  // parse   both valid where `layered`
  uint64_t v4;                 // parse   slots that are IPv4
  uint64_t v6;                 // parse   slots that are IPv6
  uint64_t unread;  // parse   slots of plain frames; of their hdr at most the addresses are there: headers_of
  // By slot, big-endian as on the wire; valid for frames with headers, and of inner layers. Of IPv6 the addresses
  // always are.
  Headers hdr[kMaxBurst];  // parse
  // What keys of IPv4 are made of: of the packet in the slot, as on the wire.
  // Source in the low half, destination in the high half.
  alignas(64) uint64_t v4_addresses[kMaxBurst];  // parse
  // port[0], port[1], protocol, from the lowest byte; Wants::fields.
  uint64_t v4_fields[kMaxBurst];   // parse
  uint64_t v4_ports;               // parse  IPv4 slots that have ports; Wants::fields
  uint64_t v6_high[2][kMaxBurst];  // parse  by side and slot: the first half of IPv6 addresses

  uint64_t asked[2];  // gate    by side: slots whose lookups of this side may find something

  uint64_t hit;       // match    slots with a match; clear before the first
  uint64_t replaced;  // match    slots in which a replacing lookup has found a key; valid for the next one
  // The lists that match: most packets match by one key only, and what it matches is a set of the snapshot. lists_of.
  // By slot: that set (WorkerSnapshot::set), 0: `matched` has it; valid where `hit`.
  alignas(16) uint32_t set_id[kMaxBurst];  // match
  weir_set matched[kMaxBurst];             // match   by slot; valid where `hit` and set_id is 0

  uint64_t drop;  // verdict
};

// One lookup of a burst: the keys of one shape, taken from one side of its packets.
struct KeyBatch : filter::Batch {
  Burst* burst = nullptr;          // keys
  Side side = kSource;             // keys
  Part part = Part::base;          // keys
  ProbeCounter* probes = nullptr;  // look_up; null: its filter is never wrong
  uint8_t key_of[kMaxBurst] = {};  // keys    slot of key k
};

}  // namespace weir::dataplane
