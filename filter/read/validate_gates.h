#pragma once

#include "common/result.h"
#include "filter/format/snapshot.h"
#include "filter/read/sections.h"

namespace weir::filter {

// The gates of a header, their tables' sections and n_set. Only after the fields of its shapes have passed.
Result<void> validate_gates(const weir_snapshot_header& header, Sections& sections);

}  // namespace weir::filter
