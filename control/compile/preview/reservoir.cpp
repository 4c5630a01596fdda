#include "control/compile/preview/reservoir.h"

#include <algorithm>
#include <cstring>

namespace weir::control {

Reservoir::Reservoir(uint64_t seed) : random_(seed) {}

void Reservoir::set(const PlanSettings& settings) {
  if (settings.recent_s != settings_.recent_s) slices_ = {};
  settings_ = settings;
  for (Slice& slice : slices_) trim(slice, settings_.samples / kSlices);
  if (settings_.samples == 0) slices_ = {};
}

void Reservoir::trim(Slice& slice, size_t most) {
  while (slice.kept.size() > most) {
    std::pop_heap(slice.kept.begin(), slice.kept.end(), is_more);
    slice.forgotten = std::max(slice.forgotten, slice.kept.back().priority);
    slice.kept.pop_back();
  }
}

void Reservoir::take(const std::string& target, const wire::Traffic& traffic, uint64_t now_unix_ns) {
  count(target, traffic.body, traffic.samples.size());
  if (settings_.samples == 0 || traffic.samples.empty()) return;
  auto known = std::find(targets_.begin(), targets_.end(), target);
  if (known == targets_.end()) {
    constexpr size_t kMostTargets = 255;
    if (targets_.size() == kMostTargets) return;
    known = targets_.insert(known, target);
  }
  for (const wire::SampledTraffic& sampled : traffic.samples) {
    SeenFrame frame;
    frame.time_unix_ns = std::min(sampled.sample.time_unix_ns, now_unix_ns);
    if (now_unix_ns - frame.time_unix_ns > uint64_t{settings_.recent_s} * 1'000'000'000) continue;
    frame.weight = sampled.sample.weight;
    frame.bytes = sampled.sample.frame_bytes;
    frame.kind = sampled.sample.kind;
    frame.was_dropped = sampled.sample.dropped != 0;
    frame.target = static_cast<uint8_t>(known - targets_.begin());
    for (uint32_t layer = 0; layer < sampled.sample.layers; layer++) {
      weir_packet& packet = layer == 0 ? frame.outer : frame.inner.emplace_back();
      memcpy(&packet, sampled.packets[layer].data(), sizeof packet);
    }
    keep(std::move(frame));
  }
}

// As SampleSource::count: a target that is met for the first time has counted for others before, and one that started
// anew counts from 0.
void Reservoir::count(const std::string& target, const wire::TrafficBody& now, size_t frames) {
  const auto [known, is_new] = last_.try_emplace(target, now);
  wire::TrafficBody& last = known->second;
  if (is_new) {
    last.told = now.told - frames;
  } else if (now.start_time_unix != last.start_time_unix || now.told < last.told) {
    counts_.lost += last.waiting;
    last = {};
  }
  counts_.taken += frames;
  counts_.lost += now.lost - last.lost + (now.told - last.told - frames);
  last = now;
}

void Reservoir::keep(SeenFrame frame) {
  const uint64_t number = frame.time_unix_ns / slice_ns();
  Slice& slice = slices_[number % kSlices];
  if (slice.number > number) return;  // of a time that has left
  if (slice.number != number) {
    slice = {};
    slice.number = number;
  }
  const double u = 1 - std::uniform_real_distribution<double>(0, 1)(random_);
  slice.kept.push_back({frame.weight / u, std::move(frame)});
  std::push_heap(slice.kept.begin(), slice.kept.end(), is_more);
  trim(slice, settings_.samples / kSlices);
}

std::shared_ptr<const SeenTraffic> Reservoir::recent(uint64_t now_unix_ns) const {
  auto seen = std::make_shared<SeenTraffic>();
  seen->targets = targets_;
  seen->frames.reserve(size());
  const uint64_t age_ns = uint64_t{settings_.recent_s} * 1'000'000'000;
  const uint64_t oldest = now_unix_ns > age_ns ? now_unix_ns - age_ns : 0;
  for (const Slice& slice : slices_) {
    for (const Kept& kept : slice.kept) {
      const uint64_t time = kept.frame.time_unix_ns;
      if (time < oldest) continue;
      SeenFrame& frame = seen->frames.emplace_back(kept.frame);
      frame.weight = std::max(frame.weight, slice.forgotten);
      seen->from_unix_ns = seen->from_unix_ns == 0 ? time : std::min(seen->from_unix_ns, time);
      seen->to_unix_ns = std::max(seen->to_unix_ns, time);
    }
  }
  return seen;
}

size_t Reservoir::size() const {
  size_t all = 0;
  for (const Slice& slice : slices_) all += slice.kept.size();
  return all;
}

}  // namespace weir::control
