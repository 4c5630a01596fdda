#include "dataplane/burst/load.h"

#include <rte_mbuf.h>

#include <algorithm>

#include "filter/frame/frame.h"

namespace weir::dataplane {

void WorkerLoad::prepare(size_t n_queues, uint64_t tsc_hz) {
  queues_ = std::vector<Line>((n_queues + kInLine - 1) / kInLine);
  half_life_cycles_ = kHalfLifeSeconds * tsc_hz;
}

void WorkerLoad::note(const rte_mbuf& frame) noexcept {
  if (n_noted_ == kMostNoted) count_noted();
  Noted& noted = noted_[n_noted_++];
  noted.family = 0;
  filter::Headers headers;
  if (filter::parse_frame(rte_pktmbuf_mtod(&frame, const uint8_t*), frame.data_len, headers) != filter::Outcome::ip)
    return;
  noted.family = headers.family;
  const uint64_t address = headers.address[filter::kSource][0];  // as on the wire
  noted.address = headers.family == 4 ? __builtin_bswap32(static_cast<uint32_t>(address)) : __builtin_bswap64(address);
}

void WorkerLoad::count_noted() noexcept {
  for (uint32_t i = 0; i < n_noted_; i++) {
    const Noted& noted = noted_[i];
    if (noted.family == 4) v4_.add(noted.address, wire::kFrameWeight);
    if (noted.family == 6) v6_.add(noted.address, wire::kFrameWeight);
  }
  const uint64_t more = uint64_t{n_noted_} * wire::kFrameWeight;
  sampled_.store(sampled_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  n_noted_ = 0;
}

void WorkerLoad::settle(uint64_t now) noexcept {
  if (halved_cycles_ == 0) halved_cycles_ = now;
  if (const uint64_t times = (now - halved_cycles_) / half_life_cycles_; times != 0) {
    const auto shift = static_cast<unsigned>(std::min<uint64_t>(times, 63));
    v4_.halve(shift);
    v6_.halve(shift);
    sampled_.store(sampled_.load(std::memory_order_relaxed) >> shift, std::memory_order_relaxed);
    halved_cycles_ += times * half_life_cycles_;
  }
  count_noted();
}

void WorkerLoad::add_to(wire::Telemetry& telemetry, std::span<const Route> routes) const {
  const size_t n = std::min({routes.size(), queues_.size() * kInLine, size_t{wire::kMaxQueues}});
  for (size_t i = 0; i < n; i++) {
    telemetry.queues.push_back(
        {routes[i].in.port, routes[i].in.queue, 0, queues_[i / kInLine].packets[i % kInLine].get()});
  }
  telemetry.body.sampled = sampled_.load(std::memory_order_relaxed);
  static_assert(2 * HeavySources::kSlots <= wire::kMaxSources);
  for (const auto& [address, weight] : v4_.read()) telemetry.sources.push_back({address, 4, 0, weight});
  for (const auto& [address, weight] : v6_.read()) telemetry.sources.push_back({address, 6, 0, weight});
}

}  // namespace weir::dataplane
