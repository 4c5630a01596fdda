#pragma once

#include <cstddef>
#include <span>

#include "common/result.h"

namespace weir::filter {

// Checks that bytes are one complete snapshot whose every offset, id and bound holds (the list:
// docs/develop/snapshot.md). Believes nothing: the bytes may be anybody's. Errors name the field and its value. One
// pass over the bytes that lookups follow; allocates nothing.
Result<void> validate_snapshot(std::span<const std::byte> bytes);

}  // namespace weir::filter
