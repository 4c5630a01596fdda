#include <algorithm>

#include "dataplane/stages.h"

namespace weir::dataplane {

namespace {

static_assert(kMaxBurst / kMaxLayers == 16, "frames that every burst has room for");

// A frame in several segments whose first one did not tell all: parses a copy of what headers can reach. A copy is
// bounded by kMaxHeaderBytes (33 KiB), with tunnels by kMaxLayersBytes (176 KiB), so no frame makes it large.
[[gnu::noinline]] Outcome parse_segments(const rte_mbuf* packet, Headers& headers) noexcept {
  uint8_t copy[kMaxHeaderBytes];
  const uint32_t length = std::min(packet->pkt_len, kMaxHeaderBytes);
  const void* bytes = rte_pktmbuf_read(packet, 0, length, copy);
  return bytes == nullptr ? Outcome::malformed : parse_frame(static_cast<const uint8_t*>(bytes), length, headers);
}

[[gnu::noinline]] Outcome parse_segments(const rte_mbuf* packet, uint8_t tunnels, Headers& outer,
                                         InnerLayers& inner) noexcept {
  uint8_t copy[kMaxLayersBytes];
  const uint32_t length = std::min(packet->pkt_len, kMaxLayersBytes);
  const void* bytes = rte_pktmbuf_read(packet, 0, length, copy);
  inner.n = 0;
  return bytes == nullptr ? Outcome::malformed
                          : parse_layers(static_cast<const uint8_t*>(bytes), length, tunnels, outer, inner);
}

void list_slot(Burst& burst, uint32_t slot) noexcept {
  const bool is_v4 = burst.hdr[slot].family == 4;
  burst.v4[burst.n_v4] = static_cast<uint8_t>(slot);
  burst.v6[burst.n_v6] = static_cast<uint8_t>(slot);
  burst.n_v4 += is_v4;
  burst.n_v6 += !is_v4;
}

// Gives slots to the inner layers of frame i. False: there are not as many.
bool place(Burst& burst, uint32_t i, const InnerLayers& inner) noexcept {
  if (i + inner.n >= burst.first_inner) return false;
  burst.layered |= bit(i);
  burst.inner[i] = static_cast<uint8_t>(burst.first_inner - 1);
  burst.n_inner[i] = static_cast<uint8_t>(inner.n);
  for (uint32_t layer = 0; layer < inner.n; layer++) {
    const uint32_t slot = --burst.first_inner;
    burst.hdr[slot] = inner.layer[layer];
    list_slot(burst, slot);
    burst.incomplete |= uint64_t{has(inner.layer[layer], WEIR_INCOMPLETE)} << i;
  }
  return true;
}

// Returns the frames that found slots.
template <bool kTunnels>
uint32_t parse_frames(uint8_t tunnels, Burst& burst) noexcept {
  for (uint32_t i = 0; i < burst.n; i++) {
    if (kTunnels && i == burst.first_inner) return i;
    const rte_mbuf* packet = burst.pkt[i];
    const auto* bytes = rte_pktmbuf_mtod(packet, const uint8_t*);
    const bool in_segments = packet->data_len < packet->pkt_len;
    Headers& headers = burst.hdr[i];
    Outcome outcome;
    if constexpr (kTunnels) {
      InnerLayers inner;
      outcome = parse_layers(bytes, packet->data_len, tunnels, headers, inner);
      if (in_segments && !decided(outcome, headers, inner, tunnels)) {
        outcome = parse_segments(packet, tunnels, headers, inner);
      }
      if (inner.n != 0 && !place(burst, i, inner)) return i;
    } else {
      outcome = parse_frame(bytes, packet->data_len, headers);
      if (in_segments && !decided(outcome, headers)) outcome = parse_segments(packet, headers);
    }
    if (outcome == Outcome::ip) {
      list_slot(burst, i);
      burst.incomplete |= uint64_t{has(headers, WEIR_INCOMPLETE)} << i;
    } else {
      burst.not_ip |= uint64_t{outcome == Outcome::not_ip} << i;
      burst.malformed |= uint64_t{outcome == Outcome::malformed} << i;
    }
  }
  return burst.n;
}

}  // namespace

void parse(uint8_t tunnels, Burst& burst, WorkerCounters& counters) noexcept {
  burst.not_ip = burst.malformed = burst.incomplete = burst.layered = burst.hit = 0;
  burst.n_v4 = burst.n_v6 = 0;
  burst.first_inner = kMaxBurst;
  const uint32_t parsed = tunnels == 0 ? parse_frames<false>(0, burst) : parse_frames<true>(tunnels, burst);
  burst.n_carried = burst.n - parsed;
  for (uint32_t i = parsed; i < burst.n; i++) burst.bytes -= burst.pkt[i]->pkt_len;
  burst.n = parsed;
  burst.ip = low_bits(burst.n) & ~burst.not_ip & ~burst.malformed;
  counters.not_ip.add(static_cast<uint64_t>(__builtin_popcountll(burst.not_ip)));
  counters.malformed.add(static_cast<uint64_t>(__builtin_popcountll(burst.malformed)));
  counters.incomplete.add(static_cast<uint64_t>(__builtin_popcountll(burst.incomplete)));
}

}  // namespace weir::dataplane
