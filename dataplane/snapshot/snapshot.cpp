#include "dataplane/snapshot/snapshot.h"

#include <algorithm>
#include <cstring>

#include "filter/format/rules.h"

namespace weir::dataplane {

namespace {

std::vector<Lookup> lookups_of(const filter::SnapshotView& view) {
  std::vector<Lookup> lookups;
  for (const filter::ShapeView& shape : view.shapes()) {
    const filter::Key mask = filter::key_mask(shape.shape);
    for (const Side side : {kSource, kDestination}) {
      const int direction = side == kSource ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
      if ((shape.directions & direction) == 0) continue;
      const Side gate_side = shape.shape.flow ? static_cast<Side>(shape.gate_side) : side;
      lookups.push_back({&shape, side, gate_side, mask});
    }
  }
  return lookups;
}

Wants wants_of(const filter::SnapshotView& view) {
  const auto asks_fields = [](const filter::ShapeView& shape) {
    return shape.shape.family == 4 && (shape.shape.with_port || shape.shape.flow);
  };
  const auto shapes = view.shapes();
  return {.tunnels = view.header().tunnels, .fields = std::any_of(shapes.begin(), shapes.end(), asks_fields)};
}

}  // namespace

Result<std::vector<Snapshot::Copy>> Snapshot::allocate(size_t size_bytes, std::span<const WorkerPlace> workers) {
  std::vector<Copy> copies;
  for (const WorkerPlace& worker : workers) {
    const bool have =
        std::any_of(copies.begin(), copies.end(), [&](const Copy& copy) { return copy.numa_node == worker.numa_node; });
    if (have) continue;
    Result<SnapshotMemory> memory = allocate_snapshot_memory(size_bytes, worker.numa_node);
    if (!memory) return Error{memory.error()};
    copies.push_back({std::move(*memory), worker.numa_node, {}, {}});
  }
  return copies;
}

Result<std::unique_ptr<Snapshot>> Snapshot::open(std::vector<Copy> copies, size_t size_bytes, const Digest& digest,
                                                 std::span<const WorkerPlace> workers) {
  for (Copy& copy : copies) {
    Result<filter::SnapshotView> view = filter::SnapshotView::open(copy.memory.mapping.bytes().first(size_bytes));
    if (!view) return Error{view.error()};
    copy.view = *view;
  }
  auto snapshot = std::make_unique<Snapshot>();
  snapshot->copies_ = std::move(copies);  // the copies stay where they are from here on: lookups point into them
  snapshot->size_bytes_ = size_bytes;
  snapshot->digest_ = digest;
  for (Copy& copy : snapshot->copies_) copy.lookups = lookups_of(copy.view);
  for (const WorkerPlace& worker : workers) {
    const auto copy = std::find_if(snapshot->copies_.begin(), snapshot->copies_.end(),
                                   [&](const Copy& c) { return c.numa_node == worker.numa_node; });
    std::vector<ListCounters>& counters = snapshot->counters_.emplace_back(snapshot->lists().size());
    std::vector<filter::Lane>& lanes = snapshot->lanes_.emplace_back();
    for (const Lookup& lookup : copy->lookups) lanes.push_back({.shape = lookup.shape});
    snapshot->workers_.push_back({&copy->view, copy->lookups, lanes, counters.data(), wants_of(copy->view)});
  }
  return snapshot;
}

bool Snapshot::huge() const {
  return std::all_of(copies_.begin(), copies_.end(), [](const Copy& copy) { return copy.memory.huge; });
}

std::vector<wire::ListStats> Snapshot::list_stats() const {
  std::vector<wire::ListStats> stats(lists().size());
  for (size_t list = 0; list < stats.size(); list++) {
    memcpy(stats[list].name, lists()[list].name, sizeof stats[list].name);
    for (const std::vector<ListCounters>& worker : counters_) worker[list].add_to(stats[list]);
  }
  return stats;
}

}  // namespace weir::dataplane
