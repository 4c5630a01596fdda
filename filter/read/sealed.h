#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/result.h"
#include "filter/format/snapshot.h"

// What an enforcer asks of a descriptor that is said to be a snapshot, before it maps it.
namespace weir::filter {

// Seals, size and the header's own size. Nobody can change or shrink the bytes any more: what is checked stays so, and
// a read never meets SIGBUS. limit: what does not allow more than limit_bytes, in words. Returns the size in bytes.
Result<size_t> check_sealed(int fd, uint64_t limit_bytes, const std::string& limit);

}  // namespace weir::filter
