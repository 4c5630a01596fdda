#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/digest.h"
#include "common/result.h"
#include "common/wire.h"
#include "dataplane/snapshot/snapshot_memory.h"
#include "filter/read/view.h"

namespace weir::dataplane {

// A worker's place: its snapshot copy lies on its NUMA node.
struct WorkerPlace {
  int numa_node = -1;
};

// The bytes of one snapshot, or overlay: copies in memory of our own, one per NUMA node in use.
class Copies {
 public:
  struct Copy {
    SnapshotMemory memory;
    int numa_node;
    filter::SnapshotView view;
  };

  // Uninitialised copies, one per distinct node of the workers.
  static Result<std::vector<Copy>> allocate(size_t size_bytes, std::span<const WorkerPlace> workers);
  // Validates every copy (Step::validate of common/wire.h). digest: of the bytes, which is not compared with them.
  static Result<Copies> open(std::vector<Copy> copies, size_t size_bytes, const Digest& digest);

  const Copy& on_node(int numa_node) const;
  std::span<const Copy> all() const { return copies_; }
  std::span<std::byte> bytes_of(const Copy& copy) const { return copy.memory.mapping.bytes().first(size_bytes_); }

  const filter::SnapshotView& view() const { return copies_.front().view; }
  const weir_snapshot_header& header() const { return view().header(); }
  wire::Generation generation() const { return {header().epoch, header().number}; }
  size_t size_bytes() const { return size_bytes_; }
  const Digest& digest() const { return digest_; }
  bool huge() const;

 private:
  Copies() = default;
  std::vector<Copy> copies_;  // stay where they are from open() on: views are pointed to
  size_t size_bytes_ = 0;
  Digest digest_ = {};
};

}  // namespace weir::dataplane
