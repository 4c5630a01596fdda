#pragma once

#include <cstdint>
#include <map>

#include "common/result.h"

struct rte_mempool;

namespace weir::dataplane {

// Frames that a worker may hold at once, all its bursts in flight (dataplane/burst/flight.h).
constexpr uint32_t kMostFramesHeld = 2048;

struct MbufCount {
  uint64_t total = 0;
  uint64_t missing = 0;    // not back in their pool
  uint64_t most_kept = 0;  // that drivers may not have given back when they were closed (Devices::close)
  bool all_accounted() const { return missing <= most_kept; }
};

// The mbufs of the process: one pool per NUMA node that has a receiving port.
class MbufPools {
 public:
  // What the rings and caches can hold at most, so that a full ring never starves another.
  // descriptors: of all rings that may hold mbufs of the pool.
  static uint32_t size_for(uint64_t descriptors, unsigned n_lcores);

  // data_room: bytes per mbuf, headroom included.
  Result<void> add(int numa_node, uint32_t mbufs, uint32_t data_room);
  rte_mempool* on(int numa_node) const { return pools_.at(numa_node); }
  bool has(int numa_node) const { return pools_.contains(numa_node); }
  size_t count() const { return pools_.size(); }

  // Every mbuf must be back once all ports are closed.
  MbufCount count_mbufs() const;
  void free();

 private:
  std::map<int, rte_mempool*> pools_;
};

}  // namespace weir::dataplane
