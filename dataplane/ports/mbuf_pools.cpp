#include "dataplane/ports/mbuf_pools.h"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <algorithm>
#include <string>

namespace weir::dataplane {

namespace {

constexpr unsigned kCache = 256;        // mbufs per lcore; RTE_MEMPOOL_CACHE_MAX_SIZE is 512
constexpr uint32_t kLeastMbufs = 2048;  // several times the cache, as rte_mempool asks

}  // namespace

uint32_t MbufPools::size_for(uint64_t descriptors, unsigned n_lcores) {
  // A cache is flushed at 1.5 times its size (rte_mempool.h); a worker holds its bursts.
  const uint64_t per_lcore = kCache + kCache / 2 + kMostFramesHeld;
  const uint64_t mbufs = descriptors + per_lcore * n_lcores;
  return static_cast<uint32_t>(std::clamp<uint64_t>(mbufs, kLeastMbufs, UINT32_MAX));
}

Result<void> MbufPools::add(int numa_node, uint32_t mbufs, uint32_t data_room) {
  const std::string name = "weir-mbufs-" + std::to_string(numa_node);
  const unsigned cache = mbufs < kLeastMbufs ? 0 : kCache;
  rte_mempool* pool =
      rte_pktmbuf_pool_create(name.c_str(), mbufs, cache, 0, static_cast<uint16_t>(data_room), numa_node);
  if (pool == nullptr) {
    const uint64_t mib = uint64_t{mbufs} * (sizeof(rte_mbuf) + data_room) >> 20;
    return Error{"cannot make " + std::to_string(mbufs) + " mbufs of " + std::to_string(data_room) + " bytes (" +
                 std::to_string(mib) + " MiB): " + rte_strerror(rte_errno) +
                 "; reserve more huge pages, give EAL more memory (-m), or lower mempool.mbufs or data_room"};
  }
  pools_[numa_node] = pool;
  return {};
}

MbufCount MbufPools::count_mbufs() const {
  MbufCount count;
  for (const auto& [node, pool] : pools_) {
    count.total += pool->size;
    count.missing += pool->size - rte_mempool_avail_count(pool);
  }
  return count;
}

void MbufPools::free() {
  for (const auto& [node, pool] : pools_) rte_mempool_free(pool);
  pools_.clear();
}

}  // namespace weir::dataplane
