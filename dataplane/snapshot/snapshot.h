#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/result.h"
#include "common/wire.h"
#include "dataplane/frame/frame.h"
#include "dataplane/snapshot/list_counters.h"
#include "dataplane/snapshot/snapshot_memory.h"
#include "filter/kernels/kernels.h"
#include "filter/probe/lookup.h"
#include "filter/read/view.h"

namespace weir::dataplane {

// One pass of a burst over one table: the keys of one shape, taken from one side of the packets. A flow shape's keys
// hold both sides: one lookup, which counts as source.
struct Lookup {
  const filter::ShapeView* shape;
  Side side;
  uint64_t mask[2];              // of the address halves: the leading bits that the shape keeps; flow: of the source
  uint64_t destination_mask[2];  // flow
  uint64_t fields_mask;          // flow: of ports and protocol, the last word of the key
};

// What the parse stage is to find out.
struct Wants {
  uint8_t tunnels;  // whose layers are packets, too: mask of enum weir_tunnel
  bool fields;      // some lookup of IPv4 asks for ports or protocol
};

// What one worker needs of a snapshot. Borrowed from a Snapshot; valid until the worker's next quiescent state.
struct WorkerSnapshot {
  const filter::SnapshotView* view;
  const filter::Kernels* kernels;
  std::span<const Lookup> lookups;
  std::span<filter::Lane> lanes;  // of the lookups; this worker's
  ListCounters* lists;            // by list index; written by this worker only
  bool look_ahead;                // some table outgrows L2: overlapping bursts pays
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
  static Result<std::unique_ptr<Snapshot>> open(std::vector<Copy> copies, size_t size_bytes, const uint64_t digest[2],
                                                const filter::Kernels& kernels, std::span<const WorkerPlace> workers);

  const WorkerSnapshot& of_worker(uint32_t worker) const noexcept { return workers_[worker]; }

  wire::Generation generation() const;
  std::span<const weir_list> lists() const { return copies_.front().view.lists(); }
  std::span<const std::byte> bytes() const { return copies_.front().memory.mapping.bytes().first(size_bytes_); }
  bool huge() const;
  bool has_digest(const uint64_t digest[2]) const { return digest_[0] == digest[0] && digest_[1] == digest[1]; }
  // Sum over the workers, by list index; names filled.
  std::vector<wire::ListStats> list_stats() const;

 private:
  std::vector<Copy> copies_;
  std::vector<WorkerSnapshot> workers_;
  std::vector<std::vector<ListCounters>> counters_;  // [worker][list]
  std::vector<std::vector<filter::Lane>> lanes_;     // [worker][lookup]
  size_t size_bytes_ = 0;
  uint64_t digest_[2] = {};
};

}  // namespace weir::dataplane
