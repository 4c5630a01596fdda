#include "dataplane/serve/sample_drain.h"

#include <algorithm>
#include <ctime>

namespace weir::dataplane {

namespace {
constexpr uint64_t kNsPerSecond = 1'000'000'000;
}  // namespace

SampleClock::SampleClock(uint64_t now_ticks, uint64_t ticks_per_second)
    : now_ticks_(now_ticks), ticks_per_second_(std::max<uint64_t>(ticks_per_second, 1)) {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  now_unix_ns_ = static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
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

}  // namespace weir::dataplane
