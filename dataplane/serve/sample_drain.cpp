#include "dataplane/serve/sample_drain.h"

#include <algorithm>
#include <ctime>

#include "common/clock.h"

namespace weir::dataplane {

namespace {
constexpr uint64_t kNsPerSecond = 1'000'000'000;
}  // namespace

SampleClock::SampleClock(uint64_t now_ticks, uint64_t ticks_per_second)
    : now_ticks_(now_ticks), ticks_per_second_(std::max<uint64_t>(ticks_per_second, 1)) {
  now_unix_ns_ = static_cast<uint64_t>(unix_now_ns());
}

uint64_t SampleClock::unix_ns(uint64_t ticks) const {
  const uint64_t ago = now_ticks_ > ticks ? now_ticks_ - ticks : 0;  // a frame may be judged while this is read
  const uint64_t ago_ns =
      ago / ticks_per_second_ * kNsPerSecond + ago % ticks_per_second_ * kNsPerSecond / ticks_per_second_;
  return now_unix_ns_ - std::min(now_unix_ns_, ago_ns);
}

uint32_t append_samples(Sampler& sampler, const SampleClock& clock, size_t limit_bytes, std::vector<std::byte>& body) {
  uint32_t n = 0;
  while (SampleSlot* slot = sampler.ring().front()) {
    if (body.size() + wire::sample_message_bytes(slot->sample.captured_bytes) > limit_bytes) break;
    slot->sample.time_unix_ns = clock.unix_ns(slot->sample.time_unix_ns);
    wire::append_sample(body, slot->sample, slot->bytes);
    sampler.ring().pop();
    n++;
  }
  return n;
}

uint32_t append_traffic(TrafficSampler& sampler, const SampleClock& clock, size_t limit_bytes,
                        std::vector<std::byte>& body) {
  uint32_t n = 0;
  while (wire::SampledTraffic* sampled = sampler.ring().front()) {
    if (body.size() + wire::traffic_message_bytes(sampled->sample.layers) > limit_bytes) break;
    sampled->sample.time_unix_ns = clock.unix_ns(sampled->sample.time_unix_ns);
    wire::append_traffic(body, *sampled);
    sampler.ring().pop();
    n++;
  }
  return n;
}

uint32_t TrafficPace::one_in(uint32_t per_second, uint64_t frames, uint64_t at_ticks,
                             uint64_t ticks_per_second) noexcept {
  const uint64_t ticks = at_ticks - at_ticks_;
  if (at_ticks_ == 0 || ticks >= ticks_per_second / 10) {
    frames_per_second_ = at_ticks_ == 0 ? 0
                                        : static_cast<double>(frames - frames_) *
                                              static_cast<double>(ticks_per_second) / static_cast<double>(ticks);
    frames_ = frames;
    at_ticks_ = at_ticks;
  }
  return per_second == 0 ? 0 : static_cast<uint32_t>(std::clamp(frames_per_second_ / per_second, 1.0, 1e6));
}

}  // namespace weir::dataplane
