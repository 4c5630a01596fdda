#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "filter/build/builder.h"
#include "filter/format/chunks.h"

namespace weir::filter {

// The two-level rule table of a bitmap shape.
struct NetworkRules {
  std::vector<uint32_t> chunk_of;
  std::vector<RuleChunk> chunks;
};

// runs: ascending and disjoint.
NetworkRules network_rules(std::span<const NetworkRun> runs);

// Sets the bits first..last of a bitmap.
void mark_networks(uint8_t* bitmap, uint32_t first, uint32_t last);

}  // namespace weir::filter
