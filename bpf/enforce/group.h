#pragma once

#include <span>

#include "bpf/program/plane.h"
#include "filter/format/packet.h"
#include "filter/read/view.h"

namespace weir::xdp {

// What the program needs of a snapshot before its first lookup. slot_of is left at 0: the enforcer deals the slots.
// digest: of the bytes.
weir_group make_group(const filter::SnapshotView& view, const uint64_t digest[2]);

// Sets the bits of all keys. arena: group.arena_bytes, zero behind the snapshot.
void fill_prefilters(const filter::SnapshotView& view, const weir_group& group, std::span<std::byte> arena);

}  // namespace weir::xdp
