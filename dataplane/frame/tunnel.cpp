#include "dataplane/frame/tunnel.h"

#include <array>

namespace weir::dataplane {

namespace {

// IANA service names and port numbers.
constexpr uint16_t kVxlanPort = 4789;
constexpr uint16_t kGenevePort = 6081;
constexpr uint16_t kGtpuPort = 2152;
constexpr uint16_t kTeredoPort = 3544;

constexpr uint8_t kUdpTunnels = WEIR_TUNNEL_VXLAN | WEIR_TUNNEL_GENEVE | WEIR_TUNNEL_GTPU | WEIR_TUNNEL_TEREDO;

// The tunnels that a packet of this protocol may be one of.
constexpr std::array<uint8_t, 256> kTunnelsOf = [] {
  std::array<uint8_t, 256> table = {};
  table[4] = WEIR_TUNNEL_IPIP;
  table[41] = WEIR_TUNNEL_6IN4;
  table[47] = WEIR_TUNNEL_GRE;
  table[17] = kUdpTunnels;
  return table;
}();

// The tunnel of the mask whose port the packet has; of two, the first one here.
uint8_t udp_tunnel(const Headers& headers, uint8_t tunnels) {
  if (!has(headers, WEIR_HAS_PORTS)) return 0;
  const uint16_t source = __builtin_bswap16(headers.port[kSource]);
  const uint16_t destination = __builtin_bswap16(headers.port[kDestination]);
  if ((tunnels & WEIR_TUNNEL_VXLAN) != 0 && destination == kVxlanPort) return WEIR_TUNNEL_VXLAN;
  if ((tunnels & WEIR_TUNNEL_GENEVE) != 0 && destination == kGenevePort) return WEIR_TUNNEL_GENEVE;
  if ((tunnels & WEIR_TUNNEL_GTPU) != 0 && (source == kGtpuPort || destination == kGtpuPort)) return WEIR_TUNNEL_GTPU;
  if ((tunnels & WEIR_TUNNEL_TEREDO) != 0 && (source == kTeredoPort || destination == kTeredoPort)) {
    return WEIR_TUNNEL_TEREDO;
  }
  return 0;
}

// The tunnel of the mask that a packet with these headers is of; 0: none.
inline uint8_t tunnel_of(const Headers& headers, uint8_t tunnels) {
  const uint8_t possible = tunnels & kTunnelsOf[headers.protocol];
  return (possible & kUdpTunnels) != 0 ? udp_tunnel(headers, possible) : possible;
}

// Below: the layer behind a tunnel's own header. in: what the outer packet carries; out: what the inner one does.
// False: there is none, and headers and payload are undefined. Every length is asked for against what is left, so no
// sum can overflow.

bool enter_ethernet(const uint8_t* frame, Headers& headers, Payload& payload) {
  return parse_ethernet(frame, payload.at, payload.end, headers, payload) == Outcome::ip;
}

bool enter_ip(const uint8_t* frame, Headers& headers, Payload& payload) {
  if (payload.at == payload.end) return false;
  return frame[payload.at] >> 4 == 4 ? parse_ipv4(frame, payload.at, payload.end, headers, payload)
                                     : parse_ipv6(frame, payload.at, payload.end, headers, payload);
}

bool enter_ethertype(const uint8_t* frame, uint16_t type, Headers& headers, Payload& payload) {
  switch (type) {
    case kTypeIpv4:
      return parse_ipv4(frame, payload.at, payload.end, headers, payload);
    case kTypeIpv6:
      return parse_ipv6(frame, payload.at, payload.end, headers, payload);
    case kTypeEthernet:
      return enter_ethernet(frame, headers, payload);
    default:
      return false;
  }
}

// True: `bytes` more of the payload are there, and are passed by.
bool skip(Payload& payload, uint32_t bytes) {
  if (bytes > payload.end - payload.at) return false;
  payload.at += bytes;
  return true;
}

// RFC 2784 and 2890; with the routing bit it is RFC 1701, which nobody speaks.
bool enter_gre(const uint8_t* frame, Headers& headers, Payload& payload) {
  const uint8_t* gre = frame + payload.at;
  if (!skip(payload, 4)) return false;
  const bool checksum = (gre[0] & 0x80) != 0, routing = (gre[0] & 0x40) != 0;
  const bool key = (gre[0] & 0x20) != 0, sequence = (gre[0] & 0x10) != 0;
  const uint32_t version = gre[1] & 7u;
  if (routing || version != 0 || !skip(payload, 4u * (checksum + key + sequence))) return false;
  const uint16_t type = load_be16(gre + 2);
  if (type == kTypeMplsUnicast || type == kTypeMplsMulticast) {
    return parse_mpls(frame, payload.at, payload.end, headers, payload) == Outcome::ip;
  }
  return enter_ethertype(frame, type, headers, payload);
}

// RFC 7348.
bool enter_vxlan(const uint8_t* frame, Headers& headers, Payload& payload) {
  const uint8_t* vxlan = frame + payload.at;
  return skip(payload, 8) && (vxlan[0] & 0x08) != 0 && enter_ethernet(frame, headers, payload);
}

// RFC 8926. Option length in 4-byte units.
bool enter_geneve(const uint8_t* frame, Headers& headers, Payload& payload) {
  const uint8_t* geneve = frame + payload.at;
  if (!skip(payload, 8) || geneve[0] >> 6 != 0 || !skip(payload, (geneve[0] & 63u) * 4)) return false;
  return enter_ethertype(frame, load_be16(geneve + 2), headers, payload);
}

// 3GPP TS 29.281, section 5. Version 1, protocol type 1, message G-PDU. An extension header begins with its length in
// 4-byte units and ends with the type of the next one; 0 ends them.
bool enter_gtpu(const uint8_t* frame, Headers& headers, Payload& payload) {
  const uint8_t* gtp = frame + payload.at;
  if (!skip(payload, 8) || gtp[0] >> 5 != 1 || (gtp[0] & 0x10) == 0 || gtp[1] != 255) return false;
  if ((gtp[0] & 0x07) == 0) return enter_ip(frame, headers, payload);
  if (!skip(payload, 4)) return false;
  if ((gtp[0] & 0x04) == 0) return enter_ip(frame, headers, payload);
  uint8_t next = gtp[11];
  for (uint32_t extensions = 0; next != 0; extensions++) {
    if (extensions == kMaxGtpExtensions || payload.at == payload.end) return false;
    const uint32_t bytes = frame[payload.at] * 4u;
    if (bytes == 0 || !skip(payload, bytes)) return false;
    next = frame[payload.at - 1];
  }
  return enter_ip(frame, headers, payload);
}

// RFC 4380, section 5.1.1: an authentication header, then an origin indication, both optional, in front of IPv6.
bool enter_teredo(const uint8_t* frame, Headers& headers, Payload& payload) {
  const auto begins_with = [&](uint16_t indicator) {
    return payload.end - payload.at >= 2 && load_be16(frame + payload.at) == indicator;
  };
  if (begins_with(0x0001)) {
    const uint8_t* lengths = frame + payload.at + 2;  // of client identifier and authentication value
    if (!skip(payload, 4) || !skip(payload, lengths[0] + lengths[1] + 8u + 1u)) return false;  // nonce, confirmation
  }
  if (begins_with(0x0000) && !skip(payload, 8)) return false;
  return parse_ipv6(frame, payload.at, payload.end, headers, payload);
}

bool enter(const uint8_t* frame, uint8_t tunnel, Headers& headers, Payload& payload) {
  if ((tunnel & kUdpTunnels) != 0 && !skip(payload, kUdpBytes)) return false;
  switch (tunnel) {
    case WEIR_TUNNEL_IPIP:
      return parse_ipv4(frame, payload.at, payload.end, headers, payload);
    case WEIR_TUNNEL_6IN4:
      return parse_ipv6(frame, payload.at, payload.end, headers, payload);
    case WEIR_TUNNEL_GRE:
      return enter_gre(frame, headers, payload);
    case WEIR_TUNNEL_VXLAN:
      return enter_vxlan(frame, headers, payload);
    case WEIR_TUNNEL_GENEVE:
      return enter_geneve(frame, headers, payload);
    case WEIR_TUNNEL_GTPU:
      return enter_gtpu(frame, headers, payload);
    case WEIR_TUNNEL_TEREDO:
      return enter_teredo(frame, headers, payload);
    default:
      return false;
  }
}

// tunnel: of the outer packet.
[[gnu::noinline]] void parse_inner(const uint8_t* frame, uint8_t tunnel, uint8_t tunnels, Payload payload,
                                   InnerLayers& inner) {
  while (tunnel != 0 && inner.n < kMaxLayers - 1) {
    Headers& headers = inner.layer[inner.n];
    if (!enter(frame, tunnel, headers, payload)) return;
    inner.n++;
    tunnel = tunnel_of(headers, tunnels);
  }
}

}  // namespace

Outcome parse_layers(const uint8_t* frame, uint32_t length, uint8_t tunnels, Headers& outer,
                     InnerLayers& inner) noexcept {
  Payload payload;
  inner.n = 0;
  const Outcome outcome = parse_ethernet(frame, 0, length, outer, payload);
  if (outcome != Outcome::ip) return outcome;
  const uint8_t tunnel = tunnel_of(outer, tunnels);
  if (tunnel != 0) parse_inner(frame, tunnel, tunnels, payload, inner);
  return outcome;
}

bool decided(Outcome outcome, const Headers& outer, const InnerLayers& inner, uint8_t tunnels) noexcept {
  const Headers& last = inner.n == 0 ? outer : inner.layer[inner.n - 1];
  if (has(outer, WEIR_OPEN_END)) return false;
  for (uint32_t i = 0; i < inner.n; i++) {
    if (has(inner.layer[i], WEIR_OPEN_END)) return false;
  }
  return decided(outcome, last) && (inner.n == kMaxLayers - 1 || tunnel_of(last, tunnels) == 0);
}

}  // namespace weir::dataplane
