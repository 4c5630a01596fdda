#include "dataplane/snapshot/snapshot_memory.h"

#include <linux/mempolicy.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "common/files.h"

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

// Faults every page in now: a fault inside a burst, or SIGBUS for want of a huge page, must not happen later.
bool populate(const Mapping& mapping) {
  return madvise(mapping.bytes().data(), mapping.size(), MADV_POPULATE_WRITE) == 0;
}

Mapping map_anonymous(size_t size_bytes, int extra_flags) {
  void* address = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);
  return address == MAP_FAILED ? Mapping() : Mapping(address, size_bytes);
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
