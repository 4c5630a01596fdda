#include "dataplane/snapshot/shadow_run.h"

#include <algorithm>
#include <cstring>

namespace weir::dataplane {

namespace {

// tallies: of these lists, then of the reasons.
void add_tallies(const std::vector<Tally>& tallies, std::span<const weir_list> lists,
                 uint64_t wire::ShadowList::*packets, uint64_t wire::ShadowList::*bytes,
                 std::vector<wire::ShadowList>& rows) {
  static constexpr char kNoName[64] = {};
  for (size_t i = 0; i < tallies.size(); i++) {
    if (tallies[i].packets.get() == 0) continue;
    const bool is_list = i < lists.size();
    const auto by = is_list ? wire::DroppedBy::list : static_cast<wire::DroppedBy>(i - lists.size() + 1);
    wire::ShadowList* row = wire::row_of(is_list ? lists[i].name : kNoName, by, rows);
    if (row == nullptr) continue;
    row->*packets += tallies[i].packets.get();
    row->*bytes += tallies[i].bytes.get();
  }
}

}  // namespace

ShadowRun::ShadowRun(std::shared_ptr<const Snapshot> candidate, uint32_t one_in, const Snapshot& beside)
    : candidate_(std::move(candidate)), one_in_(one_in), beside_(beside.base()) {
  for (uint32_t worker = 0; worker < beside.workers(); worker++) {
    auto counts = std::make_unique<ShadowOfWorker>();
    counts->dropped_by = std::vector<Tally>(candidate_->lists().size() + kReasons);
    counts->passed_by = std::vector<Tally>(beside.lists().size() + kReasons);
    workers_.push_back({beside.of_worker(worker).view, std::move(counts)});
  }
}

void ShadowRun::add_to(wire::Shadow& counts) const {
  wire::ShadowBody& body = counts.body;
  for (const One& one : workers_) {
    const ShadowOfWorker& worker = *one.counts;
    body.batches += worker.batches.get();
    body.packets += worker.packets.get();
    body.bytes += worker.bytes.get();
    body.cycles += worker.cycles.get();
    body.newly_dropped += worker.newly_dropped.packets.get();
    body.newly_dropped_bytes += worker.newly_dropped.bytes.get();
    body.newly_passed += worker.newly_passed.packets.get();
    body.newly_passed_bytes += worker.newly_passed.bytes.get();
    body.lost += worker.lost.get();
    using wire::ShadowList;
    add_tallies(worker.dropped_by, candidate_->lists(), &ShadowList::newly_dropped, &ShadowList::newly_dropped_bytes,
                counts.lists);
    add_tallies(worker.passed_by, beside_->view().lists(), &ShadowList::newly_passed, &ShadowList::newly_passed_bytes,
                counts.lists);
  }
}

void ShadowRun::drain(size_t most, std::vector<wire::ShadowSample>& samples) {
  for (const One& one : workers_) {
    auto& ring = one.counts->samples;
    for (const wire::ShadowSample* sample; samples.size() < most && (sample = ring.front()) != nullptr; ring.pop()) {
      samples.push_back(*sample);
    }
  }
}

}  // namespace weir::dataplane
