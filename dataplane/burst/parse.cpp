#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

using filter::begins_ipv6;
using filter::begins_plain_ipv4;
using filter::decided;
using filter::has_plain_length;
using filter::has_plain_transport;
using filter::is_plain_ipv6;
using filter::kMaxHeaderBytes;
using filter::kMaxLayersBytes;
using filter::parse_frame;
using filter::parse_layers;

namespace {

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

// The columns of a packet whose headers are there.
void list_slot(Burst& burst, uint32_t slot) noexcept {
  const Headers& headers = burst.hdr[slot];
  if (headers.family == 6) {
    burst.v6 |= bit(slot);
    for (const Side side : {kSource, kDestination}) burst.v6_high[side][slot] = headers.address[side][0];
    return;
  }
  burst.v4 |= bit(slot);
  burst.v4_addresses[slot] = (headers.address[kSource][0] & UINT32_MAX) | headers.address[kDestination][0] << 32;
  burst.v4_fields[slot] = fields_word(headers.protocol, headers.port);
  burst.v4_ports |= uint64_t{has(headers, WEIR_HAS_PORTS)} << slot;
}

// Gives slots to the inner layers of frame i. There is room (room_for).
void place(Burst& burst, uint32_t i, const InnerLayers& inner) noexcept {
  burst.layered |= bit(i);
  burst.inner[i] = static_cast<uint8_t>(burst.first_inner - 1);
  burst.n_inner[i] = static_cast<uint8_t>(inner.n);
  for (uint32_t layer = 0; layer < inner.n; layer++) {
    const uint32_t slot = --burst.first_inner;
    burst.hdr[slot] = inner.layer[layer];
    list_slot(burst, slot);
    burst.incomplete |= uint64_t{has(inner.layer[layer], WEIR_INCOMPLETE)} << i;
  }
}

// Lists frame i as what it is.
void list_frame(Burst& burst, uint32_t i, Outcome outcome) noexcept {
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
  list_frame(burst, i, parse_whole(burst.pkt[i], burst.hdr[i]));
}

// The columns of a plain packet of IPv4. False: it is none.
[[gnu::always_inline]] inline bool list_plain_v4(uint64_t head, const uint8_t* ip, uint32_t room, size_t slot,
                                                 Burst& burst) noexcept {
  if (!begins_plain_ipv4(head) || !has_plain_length(head, WEIR_IPV4_BYTES, room)) return false;
  memcpy(&burst.v4_addresses[slot], ip + 12, sizeof burst.v4_addresses[slot]);
  return true;
}

// The columns of a plain packet of IPv6. False: it is none.
[[gnu::always_inline]] inline bool list_plain_v6(uint64_t head, const uint8_t* ip, uint32_t room, size_t slot,
                                                 Burst& burst) noexcept {
  if (!begins_ipv6(head) || !is_plain_ipv6(ip, room)) return false;
  static_assert(sizeof burst.hdr[slot].address == 32);
  memcpy(burst.hdr[slot].address, ip + 8, sizeof burst.hdr[slot].address);
  for (const Side side : {kSource, kDestination}) memcpy(&burst.v6_high[side][slot], ip + 8 + 16 * side, 8);
  return true;
}

// Slots of frames that are not plain IPv4.
struct Others {
  uint64_t v6 = 0, not_plain = 0;
};

// A frame that is not plain right behind the Ethernet header, but may be behind tags.
[[gnu::noinline]] void list_other(const uint8_t* frame, uint32_t length, uint32_t slot, Burst& burst,
                                  Others& others) noexcept {
  for (uint32_t tags = 0; tags <= WEIR_PLAIN_TAGS && length >= WEIR_ETHERNET_BYTES + WEIR_IPV4_BYTES; tags++) {
    uint64_t head;
    memcpy(&head, frame + WEIR_ETHERNET_BYTES - 2, sizeof head);
    const uint8_t* ip = frame + WEIR_ETHERNET_BYTES;
    const uint32_t room = length - WEIR_ETHERNET_BYTES;
    if (list_plain_v4(head, ip, room, slot, burst)) return;
    if (list_plain_v6(head, ip, room, slot, burst)) {
      others.v6 |= bit(slot);
      return;
    }
    if (!weir_is_vlan(__builtin_bswap16(static_cast<uint16_t>(head)))) break;
    frame += WEIR_TAG_BYTES;
    length -= WEIR_TAG_BYTES;
  }
  others.not_plain |= bit(slot);
}

// A frame's bytes are asked for while those of so many frames before it are read.
constexpr uint32_t kPrefetchAhead = 16;

[[gnu::always_inline]] inline void ask_for_line(const AskedTable& table, uint64_t address) noexcept {
  rte_prefetch0(table.bits + weir_gate_place_of(table.prefix_bits, table.n_words, table.multiplier, address).word);
}

// Ask for the lines of a packet's addresses in the tables of their gates.
template <bool kOfSource, bool kOfDestination, bool kOthers>
[[gnu::always_inline]] inline void ask_for_lines_v4(const AskedTables& gates, uint64_t addresses) noexcept {
  const auto address = [&](Side side) { return __builtin_bswap32(static_cast<uint32_t>(addresses >> (side * 32))); };
  const auto ask = [&](Side side) {
    rte_prefetch0(gates.direct_v4[side] + (address(side) >> gates.direct_shift[side]));
  };
  if constexpr (kOfSource) ask(kSource);
  if constexpr (kOfDestination) ask(kDestination);
  if constexpr (kOthers) {
    for (uint32_t t = 0; t < gates.n_v4; t++) ask_for_line(gates.v4[t], uint64_t{address(gates.v4[t].side)} << 32);
  }
}

void ask_for_lines_v6(const AskedTables& gates, const Burst& burst, size_t slot) noexcept {
  for (uint32_t t = 0; t < gates.n_v6; t++) {
    ask_for_line(gates.v6[t], weir_gate_address_v6(burst.v6_high[gates.v6[t].side][slot]));
  }
}

template <bool kOfSource, bool kOfDestination, bool kOthers>
void parse_frames(const AskedTables& gates, Burst& burst) noexcept {
  Others others;
  uint64_t bytes = 0;
  const size_t n = burst.n;
  const auto prefetch = [&](size_t i) { rte_prefetch0(rte_pktmbuf_mtod(burst.pkt[i], const void*)); };
  const auto list = [&](size_t i) {
    const rte_mbuf* packet = burst.pkt[i];
    bytes += packet->pkt_len;
    const auto* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
    const uint32_t length = packet->data_len;
    if (length >= WEIR_ETHERNET_BYTES + WEIR_IPV4_BYTES) [[likely]] {
      uint64_t head;
      memcpy(&head, frame + WEIR_ETHERNET_BYTES - 2, sizeof head);
      const uint8_t* ip = frame + WEIR_ETHERNET_BYTES;
      const uint32_t room = length - WEIR_ETHERNET_BYTES;
      if (list_plain_v4(head, ip, room, i, burst)) [[likely]] {
        ask_for_lines_v4<kOfSource, kOfDestination, kOthers>(gates, burst.v4_addresses[i]);
        return;
      }
      if (list_plain_v6(head, ip, room, i, burst)) {
        others.v6 |= bit(static_cast<uint32_t>(i));
        ask_for_lines_v6(gates, burst, i);
        return;
      }
    }
    list_other(frame, length, static_cast<uint32_t>(i), burst, others);
    if ((others.v6 & bit(static_cast<uint32_t>(i))) != 0) {
      ask_for_lines_v6(gates, burst, i);
    } else {
      ask_for_lines_v4<kOfSource, kOfDestination, kOthers>(gates, burst.v4_addresses[i]);
    }
  };
  for (size_t i = 0; i < n && i < kPrefetchAhead; i++) prefetch(i);
  size_t i = 0;
  for (; i + kPrefetchAhead < n; i++) {
    prefetch(i + kPrefetchAhead);
    list(i);
  }
  for (; i < n; i++) list(i);

  burst.unread = low_bits(burst.n) & ~others.not_plain;
  burst.v4 = burst.unread & ~others.v6;
  burst.v6 = others.v6;
  burst.total_bytes = bytes;
  for (uint64_t left = others.not_plain; left != 0; left &= left - 1) {
    parse_other(burst, static_cast<uint32_t>(__builtin_ctzll(left)));
  }
}

template <bool kOfSource, bool kOfDestination>
void parse_frames(const AskedTables& gates, Burst& burst) noexcept {
  gates.n_v4 != 0 ? parse_frames<kOfSource, kOfDestination, true>(gates, burst)
                  : parse_frames<kOfSource, kOfDestination, false>(gates, burst);
}

void parse_frames(const AskedTables& gates, Burst& burst) noexcept {
  if (gates.direct_v4[kSource] != nullptr) {
    gates.direct_v4[kDestination] != nullptr ? parse_frames<true, true>(gates, burst)
                                             : parse_frames<true, false>(gates, burst);
  } else {
    gates.direct_v4[kDestination] != nullptr ? parse_frames<false, true>(gates, burst)
                                             : parse_frames<false, false>(gates, burst);
  }
}

void parse_tunnels(uint8_t tunnels, Burst& burst) noexcept {
  for (uint32_t i = 0; i < burst.n; i++) {
    const rte_mbuf* packet = burst.pkt[i];
    burst.total_bytes += packet->pkt_len;
    Headers& headers = burst.hdr[i];
    InnerLayers inner;
    Outcome outcome = parse_layers(rte_pktmbuf_mtod(packet, const uint8_t*), packet->data_len, tunnels, headers, inner);
    if (packet->data_len < packet->pkt_len && !decided(outcome, headers, inner, tunnels)) {
      outcome = parse_segments(packet, tunnels, headers, inner);
    }
    if (inner.n != 0) place(burst, i, inner);
    list_frame(burst, i, outcome);
    // Not every packet of a flow shows what is in it: later fragments do not.
    const bool may_be_tunnel = outcome == Outcome::ip && weir_tunnels_over(headers.protocol, tunnels) != 0;
    burst.in_line |= uint64_t{may_be_tunnel} << i;
  }
}

// Protocols that have ports, a bit each.
struct Protocols {
  uint64_t bits[4] = {};
  constexpr bool holds(uint8_t protocol) const { return (bits[protocol / 64] >> protocol % 64 & 1) != 0; }
};
constexpr Protocols kWithPorts = [] {
  Protocols set;
  for (unsigned p = 0; p < 256; p++) set.bits[p / 64] |= uint64_t{(weir_carries(p) & WEIR_HAS_PORTS) != 0} << p % 64;
  return set;
}();

// Fields of a frame that list_plain_v4 has listed. False: its transport header is not there, or not whole. Nothing that
// parse has seen is taken for granted but the length: who sent the frame may have it mapped (memif), and change it.
bool read_plain_fields(Burst& burst, uint32_t slot) noexcept {
  const rte_mbuf* packet = burst.pkt[slot];
  const auto* ip = rte_pktmbuf_mtod_offset(packet, const uint8_t*, WEIR_ETHERNET_BYTES);
  uint32_t room = packet->data_len - WEIR_ETHERNET_BYTES;
  for (uint32_t tags = 0; tags <= WEIR_PLAIN_TAGS; tags++, ip += WEIR_TAG_BYTES, room -= WEIR_TAG_BYTES) {
    uint64_t head;
    memcpy(&head, ip - 2, sizeof head);
    if (!begins_plain_ipv4(head)) continue;  // a tag
    if (!has_plain_transport(head, ip, room)) return false;
    const uint8_t protocol = ip[9];
    burst.v4_fields[slot] = fields_word(protocol, ip + WEIR_IPV4_BYTES);
    burst.v4_ports |= uint64_t{kWithPorts.holds(protocol)} << slot;
    return true;
  }
  return false;
}

uint64_t frames_in(uint64_t mask) noexcept {
  return static_cast<uint64_t>(__builtin_popcountll(mask));
}

}  // namespace

uint32_t most_received(const Wants& wants) noexcept {
  return wants.tunnels != 0 ? kMaxBurst / WEIR_MAX_LAYERS : kMaxReceived;
}

void clear(Burst& burst) noexcept {
  burst.n = 0;
  burst.total_bytes = 0;
  burst.first_inner = kMaxBurst;
  burst.not_ip = burst.malformed = burst.incomplete = burst.layered = burst.in_line = 0;
  burst.v4 = burst.v6 = burst.unread = burst.v4_ports = 0;
  burst.asked[kSource] = burst.asked[kDestination] = burst.hit = 0;
}

void parse(const Wants& wants, const AskedTables& gates, Burst& burst, WorkerCounters& counters) noexcept {
  wants.tunnels != 0 ? parse_tunnels(wants.tunnels, burst) : parse_frames(gates, burst);
  counters.not_ip.add(frames_in(burst.not_ip));
  counters.malformed.add(frames_in(burst.malformed));
  counters.incomplete.add(frames_in(burst.incomplete));
}

void read_fields(uint64_t slots, Burst& burst) noexcept {
  for (uint64_t left = slots & burst.v4 & burst.unread; left != 0; left &= left - 1) {
    const auto slot = static_cast<uint32_t>(__builtin_ctzll(left));
    if (read_plain_fields(burst, slot)) continue;
    const Headers& headers = headers_of(burst, slot);
    burst.v4_fields[slot] = fields_word(headers.protocol, headers.port);
    burst.v4_ports |= uint64_t{has(headers, WEIR_HAS_PORTS)} << slot;
  }
}

const Headers& headers_of(Burst& burst, uint32_t slot) noexcept {
  if ((burst.unread & bit(slot)) != 0) {
    parse_whole(burst.pkt[slot], burst.hdr[slot]);
    burst.unread &= ~bit(slot);
  }
  return burst.hdr[slot];
}

}  // namespace weir::dataplane
