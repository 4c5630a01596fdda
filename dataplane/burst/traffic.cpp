#include "dataplane/burst/traffic.h"

#include <rte_cycles.h>

#include <algorithm>

#include "dataplane/burst/sample.h"

namespace weir::dataplane {

void TrafficSampler::choose(uint64_t wish, Burst& burst, uint64_t frames) noexcept {
  if (wish != seen_) {
    seen_ = wish;
    chosen_.begin(run_now(), rte_rdtsc());
  }
  chosen_.choose(frames, [&](uint32_t slot) {
    take(burst, slot);
    return run_now();
  });
}

// As it is wished, while half of the ring is free; then twice as many for each 64th of the ring that is taken.
uint32_t TrafficSampler::run_now() const noexcept {
  constexpr uint32_t kHalf = TrafficRing::kSlots / 2, kStep = TrafficRing::kSlots / 64, kMost = 1 << 20;
  const auto wished = static_cast<uint32_t>(seen_);
  const uint32_t used = ring_.size();
  const uint64_t longer = uint64_t{wished} << (used < kHalf ? 0 : (used - kHalf) / kStep + 1);
  return static_cast<uint32_t>(std::min<uint64_t>(longer, std::max(kMost, wished)));
}

[[gnu::noinline]] void TrafficSampler::take(Burst& burst, uint32_t slot) noexcept {
  sampled_.add(1);
  wire::SampledTraffic* sampled = ring_.free_slot();
  if (sampled == nullptr) return lost_.add(1);
  wire::TrafficSample& sample = sampled->sample;
  sample = {};
  sample.time_unix_ns = rte_rdtsc();
  sample.weight = chosen_.run();
  sample.frame_bytes = burst.pkt[slot]->pkt_len;
  sample.dropped = burst.drop >> slot & 1;
  if ((burst.not_ip & bit(slot)) != 0) {
    sample.kind = wire::FrameKind::not_ip;
  } else if ((burst.malformed & bit(slot)) != 0) {
    sample.kind = wire::FrameKind::malformed;
  } else {
    const uint32_t n_inner = (burst.layered & bit(slot)) != 0 ? burst.n_inner[slot] : 0;
    for (uint32_t layer = 0; layer <= n_inner; layer++) {
      const uint32_t at = layer == 0 ? slot : burst.inner[slot] + 1 - layer;
      copy_packet(headers_of(burst, at), sampled->packets[layer].data());
    }
    sample.layers = static_cast<uint8_t>(n_inner + 1);
  }
  ring_.push();
}

}  // namespace weir::dataplane
