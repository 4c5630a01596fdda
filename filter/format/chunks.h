#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// The two-level rule table of a bitmap shape (filter/format/snapshot.h): the rule of /24 network x is
// chunks[chunk_of[x >> 8]][x & 255]. Equal chunks are stored once; chunk 0 is all zero.
namespace weir::filter {

constexpr size_t kChunkRules = 256;             // rules in a chunk: the /24s of one /16
constexpr size_t kChunkSlots = 65536;           // chunks in the universe: the /16s of IPv4
constexpr size_t kMaxChunks = 1 + kChunkSlots;  // chunk 0 is the empty one

using RuleChunk = std::array<uint32_t, kChunkRules>;

}  // namespace weir::filter
