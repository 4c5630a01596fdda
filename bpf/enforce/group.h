#pragma once

#include <optional>

#include "bpf/program/plane.h"
#include "common/wire.h"
#include "filter/read/receive.h"
#include "filter/read/view.h"

namespace weir::xdp {

// What the program needs of a snapshot before its first lookup. slot_of is left at 0: the enforcer deals the slots.
// digest: of the bytes.
weir_group make_group(const filter::SnapshotView& view, const uint64_t digest[2]);

// Says of an overlay's lookups which of its base's they replace.
void stand_on(weir_group& overlay, const weir_snapshot_header& overlay_header, const weir_snapshot_header& base);

// The groups that enforce; null: there is none.
struct ActiveGroups {
  const weir_group* base = nullptr;
  const weir_group* overlay = nullptr;
};
inline bool is_active(uint32_t active, uint32_t group) {
  return group == (group < WEIR_BASES ? weir_active_base(active) : weir_active_overlay(active));
}
ActiveGroups active_groups(const weir_state& state);
// Nothing: there is no snapshot yet.
std::optional<filter::Enforced> enforced_by(const ActiveGroups& active);
// Generations, digests and sizes.
void tell_enforced(const ActiveGroups& active, wire::StatusBody& status);

}  // namespace weir::xdp
