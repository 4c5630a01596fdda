#include "dataplane/snapshot/snapshot.h"

#include <algorithm>
#include <cstring>

#include "filter/read/overlay.h"

namespace weir::dataplane {

Result<std::unique_ptr<Snapshot>> Snapshot::open(std::vector<Copy> copies, size_t size_bytes, const Digest& digest,
                                                 std::span<const WorkerPlace> workers) {
  Result<Copies> base = Copies::open(std::move(copies), size_bytes, digest);
  if (!base) return Error{base.error()};
  return open(std::make_shared<const Copies>(std::move(*base)), nullptr, workers);
}

Result<std::unique_ptr<Snapshot>> Snapshot::open(std::shared_ptr<const Copies> base,
                                                 std::shared_ptr<const Copies> overlay,
                                                 std::span<const WorkerPlace> workers, const Snapshot* before) {
  if (filter::is_overlay(base->header())) return Error{"it is an overlay, and stands in the place of a snapshot"};
  if (overlay) {
    if (auto ok = filter::check_overlay(base->view(), base->digest(), overlay->view()); !ok) return Error{ok.error()};
    if (overlay->header().n_sets >= kOfOverlay) return Error{"the overlay has more sets than ids"};
    for (const Copy& copy : base->all()) filter::join_gates(overlay->view(), base->bytes_of(copy));
  }
  auto snapshot = std::make_unique<Snapshot>();
  snapshot->base_ = std::move(base);
  snapshot->overlay_ = std::move(overlay);
  for (const Copy& copy : snapshot->base_->all()) {
    const filter::SnapshotView* on_it =
        snapshot->overlay_ ? &snapshot->overlay_->on_node(copy.numa_node).view : nullptr;
    snapshot->nodes_.push_back({copy.numa_node, lookups_of(copy.view, on_it)});
  }
  const bool has_same_base = before != nullptr && before->base_ == snapshot->base_;
  snapshot->base_probes_ =
      has_same_base ? before->base_probes_ : std::make_shared<ProbeCounters>(snapshot->base_->view(), workers.size());
  if (snapshot->overlay_) {
    snapshot->overlay_probes_ = std::make_shared<ProbeCounters>(snapshot->overlay_->view(), workers.size());
  }
  for (const WorkerPlace& worker : workers) snapshot->add_worker(worker);
  return snapshot;
}

void Snapshot::add_worker(const WorkerPlace& worker) {
  const filter::SnapshotView& base = base_->on_node(worker.numa_node).view;
  const filter::SnapshotView* overlay = overlay_ ? &overlay_->on_node(worker.numa_node).view : nullptr;
  const auto node = std::find_if(nodes_.begin(), nodes_.end(),
                                 [&](const OfNode& of_node) { return of_node.numa_node == worker.numa_node; });
  std::vector<ListCounters>& counters = counters_.emplace_back(lists().size());
  std::vector<filter::Lane>& lanes = lanes_.emplace_back();
  std::vector<ProbeCounter*>& probes = probes_.emplace_back();
  for (const Lookup& lookup : node->lookups) {
    lanes.push_back({.shape = lookup.shape});
    const bool of_overlay = is_of_overlay(lookup.part);
    const auto shape = static_cast<size_t>(lookup.shape - (of_overlay ? *overlay : base).shapes().data());
    probes.push_back((of_overlay ? overlay_probes_ : base_probes_)->of(workers_.size(), shape));
  }

  WorkerSnapshot& mine = workers_.emplace_back();
  mine = {&base, overlay, {}, node->lookups, lanes, probes, counters.data(), wants_of(base, overlay)};
  for (const uint32_t family : {4u, 6u}) {
    for (const uint32_t side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      mine.gates[weir_gate_number(family, side)] =
          overlay != nullptr ? &filter::joined_gate(base, *overlay, family, side) : &base.gate(family, side);
    }
  }
}

std::vector<wire::ListStats> Snapshot::list_stats() const {
  std::vector<wire::ListStats> stats(lists().size());
  for (size_t list = 0; list < stats.size(); list++) {
    memcpy(stats[list].name, lists()[list].name, sizeof stats[list].name);
    for (const std::vector<ListCounters>& worker : counters_) worker[list].add_to(stats[list]);
  }
  return stats;
}

std::vector<wire::ShapeProbes> Snapshot::probes(uint64_t now_s) const {
  std::vector<wire::ShapeProbes> told;
  base_probes_->tell(false, now_s, told);
  if (overlay_probes_) overlay_probes_->tell(true, now_s, told);
  return told;
}

}  // namespace weir::dataplane
