#pragma once

#include <cstddef>

#include "common/fd.h"
#include "common/result.h"

namespace weir::dataplane {

struct SnapshotMemory {
  Mapping mapping;  // zeroed, writable, every page present
  bool huge = false;
};

// Memory for one snapshot, outside of EAL's heap so that a policy can never use up the mbufs: 2 MiB huge pages when as
// many are free, else ordinary ones that the kernel is asked to merge. numa_node: where; -1 = anywhere.
Result<SnapshotMemory> allocate_snapshot_memory(size_t size_bytes, int numa_node);

}  // namespace weir::dataplane
