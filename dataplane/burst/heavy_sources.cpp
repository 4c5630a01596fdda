#include "dataplane/burst/heavy_sources.h"

#include <algorithm>

namespace weir::dataplane {

void HeavySources::add(uint64_t address, uint64_t weight) noexcept {
  uint64_t least = UINT64_MAX;
  Slot* lightest = nullptr;
  for (Slot& slot : slots_) {
    const uint64_t has = slot.weight.load(std::memory_order_relaxed);
    if (has != 0 && slot.address.load(std::memory_order_relaxed) == address) {
      slot.weight.store(has + weight, std::memory_order_release);
      return;
    }
    if (has < least) {
      least = has;
      lightest = &slot;
    }
  }
  // Of each slot as much is taken away as the new source loses: weights are those of frames of different sources.
  const uint64_t lost = std::min(least, weight);
  if (lost != 0) {
    for (Slot& slot : slots_) {
      slot.weight.store(slot.weight.load(std::memory_order_relaxed) - lost, std::memory_order_release);
    }
  }
  if (weight == lost) return;
  lightest->address.store(address, std::memory_order_relaxed);
  lightest->weight.store(weight - lost, std::memory_order_release);
}

void HeavySources::halve(unsigned times) noexcept {
  for (Slot& slot : slots_) {
    slot.weight.store(slot.weight.load(std::memory_order_relaxed) >> times, std::memory_order_release);
  }
}

std::vector<HeavySources::Source> HeavySources::read() const {
  std::vector<Source> sources;
  for (const Slot& slot : slots_) {
    const uint64_t before = slot.address.load(std::memory_order_acquire);
    const uint64_t weight = slot.weight.load(std::memory_order_acquire);
    // The weight of another address comes with that address.
    if (weight != 0 && slot.address.load(std::memory_order_relaxed) == before) sources.push_back({before, weight});
  }
  std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) { return a.weight > b.weight; });
  return sources;
}

}  // namespace weir::dataplane
