#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"

// Bytes as they are kept: known by their digest, and compressed by zstd.
namespace weir::control::fleet {

// SHA-256 in 64 hexadecimal digits.
std::string sha256_of(std::span<const std::byte> bytes);
bool is_digest(std::string_view text);

std::string pack(std::string_view bytes);
// Into `to`, which is as long as the bytes were. Error: it is not that.
Result<void> unpack(std::string_view packed, std::span<std::byte> to);

}  // namespace weir::control::fleet
