#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weir {

// XXH3-128 of bytes: low, high. Integrity, not authentication.
using Digest = std::array<uint64_t, 2>;
Digest digest_of(std::span<const std::byte> bytes);

}  // namespace weir
