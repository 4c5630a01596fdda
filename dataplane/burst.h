#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "dataplane/frame.h"
#include "filter/lookup.h"
#include "filter/snapshot.h"

namespace weir::dataplane {

struct Route;
struct WorkerSnapshot;

// Frames asked for at a time; at most the width of a mask, and of a filter batch.
constexpr uint32_t kMaxBurst = 64;
static_assert(kMaxBurst <= 64 && kMaxBurst <= filter::kMaxBatch);

// Columns; the tag is the stage that fills the field. Masks: bit i belongs to frame i.
struct Burst {
  uint32_t n;                // rx      0..kMaxBurst
  uint64_t bytes;            // rx      sum of frame lengths, without FCS
  rte_mbuf* pkt[kMaxBurst];  // rx      owned here until tx sends or frees each exactly once
  uint64_t now_unix_s;       // rx      what `expires` is compared with

  uint64_t ip;                  // parse   frames with headers
  uint64_t not_ip;              // parse
  uint64_t malformed;           // parse
  uint64_t incomplete;          // parse   subset of ip
  uint32_t n_v4;                // parse
  uint32_t n_v6;                // parse
  uint8_t v4[kMaxBurst];        // parse   frames that are IPv4, in order
  uint8_t v6[kMaxBurst];        // parse   frames that are IPv6, in order
  Headers hdr[kMaxBurst];       // parse   big-endian as on the wire; valid where `ip`
  uint64_t hit;                 // parse clears, exact sets: frames with a match
  weir_set matched[kMaxBurst];  // exact   lists that match; valid where `hit`

  const WorkerSnapshot* snapshot;  // probe   what it is judged by
  const Route* route;              // probe   where it goes then
  uint32_t waiting;                // probe   lookups begun, exact takes off: those not finished

  uint64_t drop;  // verdict
};

// One lookup of a burst: the keys of one shape, taken from one side of its frames.
struct KeyBatch : filter::Batch {
  Burst* burst = nullptr;          // keys
  Side side = kSource;             // keys
  uint8_t key_of[kMaxBurst] = {};  // keys    frame of key k
};

constexpr uint64_t bit(uint32_t i) {
  return uint64_t{1} << i;
}
constexpr uint64_t low_bits(uint32_t n) {
  return n == 64 ? ~uint64_t{0} : bit(n) - 1;
}

}  // namespace weir::dataplane
