#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"

// The bytes of a file as they are kept: compressed by zstd, in etcd cut into chunks (a request of etcd takes 1.5 MiB).
namespace weir::control::fleet {

constexpr size_t kChunkBytes = 512 << 10;

// SHA-256 in 64 hexadecimal digits.
std::string sha256_of(std::span<const std::byte> bytes);
bool is_digest(std::string_view text);

std::string pack(std::string_view bytes);
// Into `to`, which is as long as the bytes were. Error: it is not that.
Result<void> unpack(std::string_view packed, std::span<std::byte> to);

}  // namespace weir::control::fleet
