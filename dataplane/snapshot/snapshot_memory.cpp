#include "dataplane/snapshot/snapshot_memory.h"

#include <linux/mempolicy.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "common/files.h"
#include "common/memory.h"

namespace weir::dataplane {

namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr int kMaxNumaNode = 63;  // nodes past it get memory from anywhere: the node mask is one word

// Prefers (not: demands) the node, so that a full node costs speed and not the policy.
void prefer_node(const Mapping& mapping, int numa_node) {
  if (numa_node < 0 || numa_node > kMaxNumaNode) return;
  const unsigned long mask = 1ul << numa_node;
  syscall(SYS_mbind, mapping.bytes().data(), mapping.size(), MPOL_PREFERRED, &mask, sizeof mask * 8 + 1, 0);
}

}  // namespace

Result<SnapshotMemory> allocate_snapshot_memory(size_t size_bytes, int numa_node) {
  const size_t rounded = (size_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  SnapshotMemory memory;
  memory.mapping = map_anonymous(rounded, MAP_HUGETLB | MAP_HUGE_2MB);
  if (memory.mapping) {
    prefer_node(memory.mapping, numa_node);
    memory.huge = populate(memory.mapping);
    if (memory.huge) return memory;
  }
  memory.mapping = map_anonymous(rounded, 0);
  if (!memory.mapping) return errno_error("cannot map " + std::to_string(rounded) + " bytes for a snapshot");
  prefer_node(memory.mapping, numa_node);
  madvise(memory.mapping.bytes().data(), rounded, MADV_HUGEPAGE);  // a wish; without it the pages are small
  if (!populate(memory.mapping)) {
    return errno_error("cannot get " + std::to_string(rounded) + " bytes of memory for a snapshot");
  }
  return memory;
}

}  // namespace weir::dataplane
