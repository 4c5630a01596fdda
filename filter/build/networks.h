#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "filter/build/builder.h"

namespace weir::filter {

constexpr size_t kChunkRules = 256;             // rules in a chunk: the /24s of one /16
constexpr size_t kChunkSlots = 65536;           // chunks in the universe: the /16s of IPv4
constexpr size_t kMaxChunks = 1 + kChunkSlots;  // chunk 0 is the empty one

using RuleChunk = std::array<uint32_t, kChunkRules>;

// The two-level rule table of a bitmap shape: the rule of /24 network x is chunks[chunk_of[x >> 8]][x & 255]. Equal
// chunks are stored once; chunk 0 is all zero.
struct NetworkRules {
  std::vector<uint32_t> chunk_of;
  std::vector<RuleChunk> chunks;
};

// runs: ascending and disjoint.
NetworkRules network_rules(std::span<const NetworkRun> runs);

// Sets the bits first..last of a bitmap.
void mark_networks(uint8_t* bitmap, uint32_t first, uint32_t last);

}  // namespace weir::filter
