#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/digest.h"
#include "common/result.h"
#include "filter/read/view.h"

// What has changed since a snapshot was built, without building another: an overlay holds only the keys whose rule is
// another one now, in shapes of its base and with its secret. Where both have a shape, the overlay's rule of a key
// stands in place of the base's: it may have more lists, fewer, or none. A shape that the base does not have adds what
// it matches. Networks that the base keeps in a bitmap are keys of v4 addr/24 in an overlay.
namespace weir::filter {

inline bool is_overlay(const weir_snapshot_header& header) {
  return header.base_number != 0;
}

// The snapshot's shape with the same keys; null: it has none.
inline const ShapeView* find_shape(const SnapshotView& snapshot, KeyShape shape) {
  for (const ShapeView& candidate : snapshot.shapes()) {
    if (candidate.shape == shape) return &candidate;
  }
  return nullptr;
}

// Values of a gate's table that one key of an overlay may set, and all of them together.
constexpr uint64_t kMostJoinedOfKey = uint64_t{1} << 12, kMostJoined = uint64_t{1} << 26;

// Whether the overlay stands on this base: generation and digest, secret, lists and defaults are the same, every shape
// that both have is asked at every side at which the base's is, and the base's gates can take the overlay's keys.
Result<void> check_overlay(const SnapshotView& base, const Digest& base_digest, const SnapshotView& overlay);
// The same, by what was kept of the base: its header and its lists.
Result<void> check_overlay(const weir_snapshot_header& base, std::span<const weir_list> lists,
                           const Digest& base_digest, const SnapshotView& overlay);

// Sets, in the tables of the base's gates, the bits of every key of the overlay. base: the checked bytes of that
// snapshot, a copy of one's own. Others may read them meanwhile: a bit that comes too early, or stays, only lets a
// packet go on to lookups, which decide. The bytes do not have their digest afterwards.
void join_gates(const SnapshotView& overlay, std::span<std::byte> base);

// What to ask after that: a gate of the base, or of the overlay where no lookup of the base stands.
inline const GateView& joined_gate(const SnapshotView& base, const SnapshotView& overlay, uint32_t family,
                                   uint32_t side) {
  const GateView& of_base = base.gate(family, side);
  return of_base.kind == WEIR_GATE_CLOSED ? overlay.gate(family, side) : of_base;
}

}  // namespace weir::filter
