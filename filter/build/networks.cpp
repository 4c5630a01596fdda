#include "filter/build/networks.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "filter/layouts/bitmap.h"

namespace weir::filter {
namespace {

struct ChunkHash {  // FNV-1a over whole rules
  size_t operator()(const RuleChunk& chunk) const {
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t rule : chunk) hash = (hash ^ rule) * 0x100000001b3u;
    return hash;
  }
};

// Gives equal chunks one number, in the order of their first appearance.
class ChunkPool {
 public:
  ChunkPool() { id_of({}); }

  uint32_t id_of(const RuleChunk& chunk) {
    if (!chunks_.empty() && chunk == chunks_[last_]) return last_;  // a wide network fills many chunks alike
    const auto [found, is_new] = ids_.try_emplace(chunk, static_cast<uint32_t>(chunks_.size()));
    if (is_new) chunks_.push_back(chunk);
    return last_ = found->second;
  }

  std::vector<RuleChunk> take() { return std::move(chunks_); }

 private:
  std::vector<RuleChunk> chunks_;
  std::unordered_map<RuleChunk, uint32_t, ChunkHash> ids_;
  uint32_t last_ = 0;
};

}  // namespace

NetworkRules network_rules(std::span<const NetworkRun> runs) {
  NetworkRules table;
  table.chunk_of.assign(kChunkSlots, 0);
  ChunkPool pool;
  size_t run = 0;
  for (uint32_t slot = 0; slot < kChunkSlots && run < runs.size(); slot++) {
    const uint32_t begin = slot * static_cast<uint32_t>(kChunkRules);
    const uint32_t end = begin + static_cast<uint32_t>(kChunkRules);
    RuleChunk chunk = {};
    while (run < runs.size() && runs[run].first < end) {
      const uint32_t first = std::max(runs[run].first, begin);
      const uint32_t last = std::min(runs[run].last, end - 1);
      std::fill(chunk.begin() + (first - begin), chunk.begin() + (last - begin) + 1, runs[run].rule);
      if (runs[run].last >= end) break;  // goes on in the next chunk
      run++;
    }
    table.chunk_of[slot] = pool.id_of(chunk);
  }
  table.chunks = pool.take();
  return table;
}

void mark_networks(uint8_t* bitmap, uint32_t first, uint32_t last) {
  uint32_t index = first;
  for (; index <= last && index % 8 != 0; index++) weir_bitmap_mark(bitmap, index);
  if (index <= last) {
    const uint32_t whole_bytes = (last - index + 1) / 8;
    memset(bitmap + index / 8, 0xff, whole_bytes);
    index += whole_bytes * 8;
  }
  for (; index <= last; index++) weir_bitmap_mark(bitmap, index);
}

}  // namespace weir::filter
