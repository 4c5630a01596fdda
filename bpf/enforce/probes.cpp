#include "bpf/enforce/probes.h"

#include <algorithm>

#include "bpf/enforce/group.h"

namespace weir::xdp {

namespace {

// The newest key may not be written yet when it is counted, and while they are copied the oldest may be written over.
constexpr uint64_t kUnsure = 16;

using Sums = std::array<weir_probe, WEIR_PROBES>;

Sums sums_of(std::span<const weir_totals> processors) {
  Sums sums = {};
  for (const weir_totals& one : processors) {
    for (unsigned i = 0; i < WEIR_PROBES; i++) {
      sums[i].asked += one.probe[i].asked;
      sums[i].let_through += one.probe[i].let_through;
      sums[i].found += one.probe[i].found;
    }
  }
  return sums;
}

bool is_hashed(const weir_lookup& lookup) {
  return lookup.layout != WEIR_LAYOUT_BITMAP;
}

}  // namespace

Probes::Part Probes::part_of(const weir_group& group) {
  Part part;
  part.digest = {group.digest[0], group.digest[1]};
  part.shape_of.fill(-1);
  const auto add = [&](const weir_lookup& lookup) {
    if (!is_hashed(lookup)) return;
    part.shape_of[lookup.probe % WEIR_PROBES] = static_cast<int>(lookup.shape);
    part.windows.try_emplace(lookup.shape);
  };
  std::for_each(group.v4, group.v4 + std::min(group.n_v4, WEIR_MAX_LOOKUPS), add);
  std::for_each(group.v6, group.v6 + std::min(group.n_v6, WEIR_MAX_LOOKUPS), add);
  return part;
}

Result<wire::Probes> Probes::tell(const Program& program, std::mutex& names_mutex, uint64_t now_s) {
  wire::Probes told;
  {
    const std::lock_guard lock(names_mutex);
    const ActiveGroups groups = active_groups(program.state());
    const std::optional<filter::Enforced> enforced = enforced_by(groups);
    if (!enforced) return told;
    told.body.generation = enforced->generation;
    std::copy(enforced->digest.begin(), enforced->digest.end(), told.body.digest);
    std::copy(enforced->base_digest.begin(), enforced->base_digest.end(), told.body.base_digest);
    const weir_group* const group_of[] = {groups.base, groups.overlay};
    for (size_t i = 0; i < parts_.size(); i++) {
      Part next = group_of[i] != nullptr ? part_of(*group_of[i]) : Part();
      parts_[i].is_new = next.digest != parts_[i].digest;
      if (!parts_[i].is_new) continue;
      parts_[i] = std::move(next);
      parts_[i].is_new = true;
    }
  }
  if (parts_[0].is_new || parts_[1].is_new) {  // what began before still counts for the former ones
    if (const Result<void> waited = program.wait_for_programs(); !waited) return Error{waited.error()};
  }
  const Result<std::vector<weir_totals>> processors = program.totals_of_processors();
  if (!processors) return Error{processors.error()};
  const Sums sums = sums_of(*processors);
  for (Part& part : parts_) {
    if (part.is_new) part.before = sums;
  }
  take_keys(*processors);
  for (const bool of_overlay : {false, true}) {
    Part& part = parts_[of_overlay];
    for (auto& [shape, window] : part.windows) {
      wire::ShapeProbes probes;
      probes.shape = shape;
      probes.of_overlay = of_overlay ? 1 : 0;
      for (unsigned i = 0; i < WEIR_PROBES; i++) {
        if (part.shape_of[i] != static_cast<int>(shape)) continue;
        probes.asked += sums[i].asked - part.before[i].asked;
        probes.let_through += sums[i].let_through - part.before[i].let_through;
        probes.found += sums[i].found - part.before[i].found;
      }
      window.age(now_s);
      probes.absent = window.keys();
      probes.absent_let_through = window.let_through();
      told.shapes.push_back(probes);
    }
  }
  return told;
}

// Those of a part that is new are of the one before it.
void Probes::take_keys(std::span<const weir_totals> processors) {
  seen_.resize(processors.size());
  for (size_t p = 0; p < processors.size(); p++) {
    const weir_totals& from = processors[p];
    if (from.n_sampled == 0) continue;
    const uint64_t end = from.n_sampled - 1;
    constexpr uint64_t kMost = WEIR_SAMPLED_KEYS - kUnsure;
    for (uint64_t at = std::max(seen_[p], end < kMost ? 0 : end - kMost); at < end; at++) {
      const uint64_t key = from.sampled[at % WEIR_SAMPLED_KEYS];
      const uint32_t probe = static_cast<uint32_t>(key >> 2) % WEIR_PROBES;
      if ((key & 2) != 0) continue;  // found: it is on a list
      for (Part& part : parts_) {
        if (part.is_new || part.shape_of[probe] < 0) continue;
        KeyWindow& window = part.windows.at(static_cast<uint32_t>(part.shape_of[probe]));
        window.take(key >> WEIR_SAMPLED_HASH_SHIFT, (key & 1) != 0);
      }
    }
    seen_[p] = std::max(seen_[p], end);
  }
}

}  // namespace weir::xdp
