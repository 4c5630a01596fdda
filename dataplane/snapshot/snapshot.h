#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/digest.h"
#include "common/result.h"
#include "common/wire.h"
#include "dataplane/frame/frame.h"
#include "dataplane/snapshot/list_counters.h"
#include "dataplane/snapshot/snapshot_memory.h"
#include "filter/probe/lookup.h"
#include "filter/read/view.h"

namespace weir::dataplane {

// One pass of a burst over one table: the keys of one shape, taken from one side of the packets. A flow shape's keys
// hold both sides: one lookup, which counts as source.
struct Lookup {
  const filter::ShapeView* shape;
  Side side;
  Side gate_side;    // at which side's gate it stands
  filter::Key mask;  // the bits that its keys may have
};

// What the parse stage is to find out.
struct Wants {
  uint8_t tunnels;  // whose layers are packets, too: mask of enum weir_tunnel
  bool fields;      // some lookup of IPv4 asks for ports or protocol
};

// What one worker needs of a snapshot. Borrowed from a Snapshot; valid until the worker's next quiescent state.
struct WorkerSnapshot {
  const filter::SnapshotView* view;
  std::span<const Lookup> lookups;
  std::span<filter::Lane> lanes;  // of the lookups; this worker's
  ListCounters* lists;            // by list index; written by this worker only
  Wants wants;
};

// A worker's place: its snapshot copy lies on its NUMA node.
struct WorkerPlace {
  int numa_node = -1;
};

// An enforced snapshot: validated copies of the bytes, one per NUMA node in use, and a block of counters per worker.
class Snapshot {
 public:
  // One copy of the bytes, not validated yet.
  struct Copy {
    SnapshotMemory memory;
    int numa_node;
    filter::SnapshotView view;
    std::vector<Lookup> lookups;
  };

  // One uninitialised copy per distinct node of the workers.
  static Result<std::vector<Copy>> allocate(size_t size_bytes, std::span<const WorkerPlace> workers);
  // Validates every copy (DESIGN 8 step 3) and prepares its lookups. digest: of the bytes.
  static Result<std::unique_ptr<Snapshot>> open(std::vector<Copy> copies, size_t size_bytes, const Digest& digest,
                                                std::span<const WorkerPlace> workers);

  const WorkerSnapshot& of_worker(uint32_t worker) const noexcept { return workers_[worker]; }

  const weir_snapshot_header& header() const { return copies_.front().view.header(); }
  wire::Generation generation() const { return {header().epoch, header().number}; }
  std::span<const weir_list> lists() const { return copies_.front().view.lists(); }
  std::span<const std::byte> bytes() const { return copies_.front().memory.mapping.bytes().first(size_bytes_); }
  bool huge() const;
  const Digest& digest() const { return digest_; }
  // Sum over the workers, by list index; names filled.
  std::vector<wire::ListStats> list_stats() const;

 private:
  std::vector<Copy> copies_;
  std::vector<WorkerSnapshot> workers_;
  std::vector<std::vector<ListCounters>> counters_;  // [worker][list]
  std::vector<std::vector<filter::Lane>> lanes_;     // [worker][lookup]
  size_t size_bytes_ = 0;
  Digest digest_ = {};
};

}  // namespace weir::dataplane
