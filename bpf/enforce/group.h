#pragma once

#include <span>

#include "bpf/enforce/gates.h"
#include "bpf/program/plane.h"
#include "filter/format/packet.h"
#include "filter/read/view.h"

namespace weir::xdp {

// What the program needs of a snapshot before its first lookup. slot_of is left at 0: the enforcer deals the slots.
// digest: of the bytes.
weir_group make_group(const filter::SnapshotView& view, const Gates& gates, const uint64_t digest[2]);

}  // namespace weir::xdp
