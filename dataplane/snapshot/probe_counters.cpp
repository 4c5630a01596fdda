#include "dataplane/snapshot/probe_counters.h"

#include <algorithm>

#include "common/bits.h"

namespace weir::dataplane {

void ProbeCounter::sample(const filter::Batch& batch, uint64_t pushed) noexcept {
  const uint64_t slot = pushed % kSlots;
  const unsigned n = std::min(batch.n, kKeys);
  const auto first = static_cast<unsigned>(pushed * kKeys % (batch.n - n + 1));
  const auto* place = batch.place + first;
  for (unsigned k = 0; k < n; k++) place_[slot][k] = place[k];
  const auto outcome = [&](uint64_t keys) { return static_cast<uint32_t>(keys >> first & low_bits(n)); };
  outcome_[slot] = outcome(batch.let_through) | outcome(batch.found) << kKeys | outcome(~uint64_t{0}) << 2 * kKeys;
  pushed_.store(pushed + 1, std::memory_order_release);
}

void ProbeCounter::take_out(KeyWindow& window) {
  const uint64_t pushed = pushed_.load(std::memory_order_acquire);
  uint64_t popped = popped_.load(std::memory_order_relaxed);
  for (; popped != pushed; popped++) {
    const uint32_t outcome = outcome_[popped % kSlots];
    for (unsigned k = 0; k < kKeys; k++) {
      const bool is_absent = (outcome >> 2 * kKeys >> k & 1) != 0 && (outcome >> kKeys >> k & 1) == 0;
      if (is_absent) window.take(place_[popped % kSlots][k], (outcome >> k & 1) != 0);
    }
  }
  popped_.store(popped, std::memory_order_release);
}

ProbeCounters::ProbeCounters(const filter::SnapshotView& view, size_t workers) {
  int hashed = 0;
  for (const filter::ShapeView& shape : view.shapes()) {
    numbers_.push_back(shape.layout == WEIR_LAYOUT_BITMAP ? -1 : hashed++);
  }
  counters_ = std::vector<ProbeCounter>(workers * static_cast<size_t>(hashed));
  windows_.resize(static_cast<size_t>(hashed));
}

void ProbeCounters::tell(bool of_overlay, uint64_t now_s, std::vector<wire::ShapeProbes>& told) {
  for (size_t shape = 0; shape < numbers_.size(); shape++) {
    if (numbers_[shape] < 0) continue;
    const auto number = static_cast<size_t>(numbers_[shape]);
    KeyWindow& window = windows_[number];
    wire::ShapeProbes probes;
    probes.shape = static_cast<uint32_t>(shape);
    probes.of_overlay = of_overlay ? 1 : 0;
    window.age(now_s);
    for (size_t at = number; at < counters_.size(); at += windows_.size()) {
      counters_[at].add_to(probes);
      counters_[at].take_out(window);
    }
    probes.absent = window.keys();
    probes.absent_let_through = window.let_through();
    told.push_back(probes);
  }
}

}  // namespace weir::dataplane
