#pragma once

#include "bpf/plane.h"
#include "filter/packet.h"
#include "filter/view.h"

namespace weir::xdp {

// What the program needs of a snapshot before its first lookup. slot_of is left at 0: the enforcer deals the slots.
// digest: of the bytes.
weir_group make_group(const filter::SnapshotView& view, const uint64_t digest[2]);

}  // namespace weir::xdp
