#include "dataplane/snapshot/copies.h"

#include <algorithm>

namespace weir::dataplane {

Result<std::vector<Copies::Copy>> Copies::allocate(size_t size_bytes, std::span<const WorkerPlace> workers) {
  std::vector<Copy> copies;
  for (const WorkerPlace& worker : workers) {
    const bool have =
        std::any_of(copies.begin(), copies.end(), [&](const Copy& copy) { return copy.numa_node == worker.numa_node; });
    if (have) continue;
    Result<SnapshotMemory> memory = allocate_snapshot_memory(size_bytes, worker.numa_node);
    if (!memory) return Error{memory.error()};
    copies.push_back({std::move(*memory), worker.numa_node, {}});
  }
  return copies;
}

Result<Copies> Copies::open(std::vector<Copy> copies, size_t size_bytes, const Digest& digest) {
  for (Copy& copy : copies) {
    Result<filter::SnapshotView> view = filter::SnapshotView::open(copy.memory.mapping.bytes().first(size_bytes));
    if (!view) return Error{view.error()};
    copy.view = *view;
  }
  Copies opened;
  opened.copies_ = std::move(copies);
  opened.size_bytes_ = size_bytes;
  opened.digest_ = digest;
  return opened;
}

const Copies::Copy& Copies::on_node(int numa_node) const {
  return *std::find_if(copies_.begin(), copies_.end(), [&](const Copy& copy) { return copy.numa_node == numa_node; });
}

bool Copies::huge() const {
  return std::all_of(copies_.begin(), copies_.end(), [](const Copy& copy) { return copy.memory.huge; });
}

}  // namespace weir::dataplane
