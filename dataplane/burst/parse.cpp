#include <algorithm>
#include <cstring>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

namespace {

static_assert(kMaxBurst / WEIR_MAX_LAYERS == 16, "frames that every burst has room for");

// A packet whose header leaves its length open, and that ends with the frame, behind what was parsed of it. False: no
// such packet.
bool lengthen(Headers& headers, uint32_t unseen_bytes) noexcept {
  const bool is_open = has(headers, WEIR_OPEN_END);
  if (is_open) headers.length += unseen_bytes;
  return is_open;
}

// A frame in several segments whose first one did not tell all: parses a copy of what headers can reach. A copy is
// bounded by kMaxHeaderBytes (33 KiB), with tunnels by kMaxLayersBytes (176 KiB), so no frame makes it large.
[[gnu::noinline]] Outcome parse_segments(const rte_mbuf* packet, Headers& headers) noexcept {
  uint8_t copy[kMaxHeaderBytes];
  const uint32_t length = std::min(packet->pkt_len, kMaxHeaderBytes);
  const void* bytes = rte_pktmbuf_read(packet, 0, length, copy);
  if (bytes == nullptr) return Outcome::malformed;
  const Outcome outcome = parse_frame(static_cast<const uint8_t*>(bytes), length, headers);
  if (outcome == Outcome::ip) lengthen(headers, packet->pkt_len - length);
  return outcome;
}

[[gnu::noinline]] Outcome parse_segments(const rte_mbuf* packet, uint8_t tunnels, Headers& outer,
                                         InnerLayers& inner) noexcept {
  uint8_t copy[kMaxLayersBytes];
  const uint32_t length = std::min(packet->pkt_len, kMaxLayersBytes);
  const void* bytes = rte_pktmbuf_read(packet, 0, length, copy);
  inner.n = 0;
  if (bytes == nullptr) return Outcome::malformed;
  const Outcome outcome = parse_layers(static_cast<const uint8_t*>(bytes), length, tunnels, outer, inner);
  bool is_open = outcome == Outcome::ip && lengthen(outer, packet->pkt_len - length);
  for (uint32_t i = 0; i < inner.n && is_open; i++) is_open = lengthen(inner.layer[i], packet->pkt_len - length);
  return outcome;
}

uint64_t fields_word(uint8_t protocol, const void* ports) noexcept {
  uint32_t both;
  memcpy(&both, ports, sizeof both);
  return uint64_t{protocol} << 32 | both;
}

void list_slot(Burst& burst, uint32_t slot) noexcept {
  const Headers& headers = burst.hdr[slot];
  if (headers.family == 6) {
    burst.v6[burst.n_v6++] = static_cast<uint8_t>(slot);
    return;
  }
  const uint32_t k = burst.n_v4++;
  burst.v4[k] = static_cast<uint8_t>(slot);
  burst.v4_addresses[k] = (headers.address[kSource][0] & UINT32_MAX) | headers.address[kDestination][0] << 32;
  burst.v4_fields[k] = fields_word(headers.protocol, headers.port);
  burst.v4_ports |= uint64_t{has(headers, WEIR_HAS_PORTS)} << k;
}

// The columns of a plain frame, without its headers. False: it is none.
template <bool kFields>
bool list_plain(const rte_mbuf* packet, uint32_t slot, Burst& burst) noexcept {
  const auto* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (kFields ? !has_plain_transport(frame, packet->data_len) : !has_plain_addresses(frame, packet->data_len)) {
    return false;
  }
  const uint8_t* ip = frame + WEIR_ETHERNET_BYTES;
  const uint32_t k = burst.n_v4++;
  burst.v4[k] = static_cast<uint8_t>(slot);
  memcpy(&burst.v4_addresses[k], ip + 12, sizeof burst.v4_addresses[k]);
  if constexpr (kFields) {
    const uint8_t protocol = ip[9];
    burst.v4_fields[k] = fields_word(protocol, ip + WEIR_IPV4_BYTES);
    burst.v4_ports |= uint64_t{(weir_carries(protocol) & WEIR_HAS_PORTS) != 0} << k;
  }
  burst.unread |= bit(slot);
  return true;
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

// Lists frame i as what it is.
void settle(Burst& burst, uint32_t i, Outcome outcome) noexcept {
  if (outcome == Outcome::ip) {
    list_slot(burst, i);
    burst.incomplete |= uint64_t{has(burst.hdr[i], WEIR_INCOMPLETE)} << i;
  } else {
    burst.not_ip |= uint64_t{outcome == Outcome::not_ip} << i;
    burst.malformed |= uint64_t{outcome == Outcome::malformed} << i;
  }
}

Outcome parse_whole(const rte_mbuf* packet, Headers& headers) noexcept {
  const Outcome outcome = parse_frame(rte_pktmbuf_mtod(packet, const uint8_t*), packet->data_len, headers);
  const bool in_segments = packet->data_len < packet->pkt_len;
  return in_segments && !decided(outcome, headers) ? parse_segments(packet, headers) : outcome;
}

[[gnu::noinline]] void parse_other(Burst& burst, uint32_t i) noexcept {
  settle(burst, i, parse_whole(burst.pkt[i], burst.hdr[i]));
}

template <bool kFields>
void parse_frames(Burst& burst) noexcept {
  for (uint32_t i = 0; i < burst.n; i++) {
    if (!list_plain<kFields>(burst.pkt[i], i, burst)) parse_other(burst, i);
  }
}

// Returns the frames that found slots.
uint32_t parse_tunnels(uint8_t tunnels, Burst& burst) noexcept {
  for (uint32_t i = 0; i < burst.n; i++) {
    if (i == burst.first_inner) return i;
    const rte_mbuf* packet = burst.pkt[i];
    Headers& headers = burst.hdr[i];
    InnerLayers inner;
    Outcome outcome = parse_layers(rte_pktmbuf_mtod(packet, const uint8_t*), packet->data_len, tunnels, headers, inner);
    if (packet->data_len < packet->pkt_len && !decided(outcome, headers, inner, tunnels)) {
      outcome = parse_segments(packet, tunnels, headers, inner);
    }
    if (inner.n != 0 && !place(burst, i, inner)) return i;
    settle(burst, i, outcome);
  }
  return burst.n;
}

}  // namespace

void parse(const Wants& wants, Burst& burst, WorkerCounters& counters) noexcept {
  burst.not_ip = burst.malformed = burst.incomplete = burst.layered = burst.hit = burst.unread = burst.v4_ports = 0;
  burst.n_v4 = burst.n_v6 = 0;
  burst.first_inner = kMaxBurst;
  uint32_t parsed = burst.n;
  if (wants.tunnels != 0) {
    parsed = parse_tunnels(wants.tunnels, burst);
  } else {
    wants.fields ? parse_frames<true>(burst) : parse_frames<false>(burst);
  }
  burst.n_carried = burst.n - parsed;
  for (uint32_t i = parsed; i < burst.n; i++) burst.bytes -= burst.pkt[i]->pkt_len;
  burst.n = parsed;
  counters.not_ip.add(static_cast<uint64_t>(__builtin_popcountll(burst.not_ip)));
  counters.malformed.add(static_cast<uint64_t>(__builtin_popcountll(burst.malformed)));
  counters.incomplete.add(static_cast<uint64_t>(__builtin_popcountll(burst.incomplete)));
}

const Headers& headers_of(Burst& burst, uint32_t slot) noexcept {
  if ((burst.unread & bit(slot)) != 0) {
    parse_whole(burst.pkt[slot], burst.hdr[slot]);
    burst.unread &= ~bit(slot);
  }
  return burst.hdr[slot];
}

}  // namespace weir::dataplane
