#include "filter/frame/tunnel.h"

#include <array>

namespace weir::filter {

namespace {

// The tunnels that a packet of this protocol may be one of.
constexpr std::array<uint8_t, 256> kTunnelsOf = [] {
  std::array<uint8_t, 256> table = {};
  for (unsigned protocol = 0; protocol < table.size(); protocol++) {
    table[protocol] = static_cast<uint8_t>(weir_tunnels_over(protocol, WEIR_TUNNELS));
  }
  return table;
}();

uint8_t udp_tunnel(const Headers& headers, uint8_t tunnels) {
  if (!has(headers, WEIR_HAS_PORTS)) return 0;
  return static_cast<uint8_t>(weir_udp_tunnel(__builtin_bswap16(headers.port[kSource]),
                                              __builtin_bswap16(headers.port[kDestination]), tunnels));
}

// The tunnel of the mask that a packet with these headers is of; 0: none.
inline uint8_t tunnel_of(const Headers& headers, uint8_t tunnels) {
  const uint8_t possible = tunnels & kTunnelsOf[headers.protocol];
  return (possible & WEIR_UDP_TUNNELS) != 0 ? udp_tunnel(headers, possible) : possible;
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
    case WEIR_TYPE_IPV4:
      return parse_ipv4(frame, payload.at, payload.end, headers, payload);
    case WEIR_TYPE_IPV6:
      return parse_ipv6(frame, payload.at, payload.end, headers, payload);
    case WEIR_TYPE_ETHERNET:
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

bool enter_gre(const uint8_t* frame, Headers& headers, Payload& payload) {
  const uint8_t* gre = frame + payload.at;
  if (payload.end - payload.at < 4) return false;
  const uint32_t bytes = weir_gre_bytes(gre);
  if (bytes == 0 || !skip(payload, bytes)) return false;
  const uint16_t type = load_be16(gre + 2);
  if (type == WEIR_TYPE_MPLS_UNICAST || type == WEIR_TYPE_MPLS_MULTICAST) {
    return parse_mpls(frame, payload.at, payload.end, headers, payload) == Outcome::ip;
  }
  return enter_ethertype(frame, type, headers, payload);
}

bool enter_vxlan(const uint8_t* frame, Headers& headers, Payload& payload) {
  const uint8_t* vxlan = frame + payload.at;
  return skip(payload, WEIR_VXLAN_BYTES) && weir_vxlan_is_valid(vxlan) && enter_ethernet(frame, headers, payload);
}

bool enter_geneve(const uint8_t* frame, Headers& headers, Payload& payload) {
  const uint8_t* geneve = frame + payload.at;
  if (payload.end - payload.at < WEIR_GENEVE_BYTES) return false;
  const uint32_t bytes = weir_geneve_bytes(geneve);
  if (bytes == 0 || !skip(payload, bytes)) return false;
  return enter_ethertype(frame, load_be16(geneve + 2), headers, payload);
}

bool enter_gtpu(const uint8_t* frame, Headers& headers, Payload& payload) {
  const uint8_t* gtp = frame + payload.at;
  if (!skip(payload, WEIR_GTP_BYTES) || !weir_gtp_is_packet(gtp)) return false;
  if (!weir_gtp_has_options(gtp)) return enter_ip(frame, headers, payload);
  if (!skip(payload, WEIR_GTP_OPTION_BYTES)) return false;
  if (!weir_gtp_has_extensions(gtp)) return enter_ip(frame, headers, payload);
  uint8_t next = frame[payload.at - 1];
  for (uint32_t extensions = 0; next != 0; extensions++) {
    if (extensions == WEIR_MAX_GTP_EXTENSIONS || payload.at == payload.end) return false;
    const uint32_t bytes = frame[payload.at] * 4u;
    if (bytes == 0 || !skip(payload, bytes)) return false;
    next = frame[payload.at - 1];
  }
  return enter_ip(frame, headers, payload);
}

bool enter_teredo(const uint8_t* frame, Headers& headers, Payload& payload) {
  const auto begins_with = [&](uint16_t indicator) {
    return payload.end - payload.at >= 2 && load_be16(frame + payload.at) == indicator;
  };
  if (begins_with(WEIR_TEREDO_AUTHENTICATION)) {
    if (payload.end - payload.at < 4) return false;
    if (!skip(payload, weir_teredo_authentication_bytes(frame + payload.at))) return false;
  }
  if (begins_with(WEIR_TEREDO_ORIGIN) && !skip(payload, WEIR_TEREDO_ORIGIN_BYTES)) return false;
  return parse_ipv6(frame, payload.at, payload.end, headers, payload);
}

bool enter(const uint8_t* frame, uint8_t tunnel, Headers& headers, Payload& payload) {
  if ((tunnel & WEIR_UDP_TUNNELS) != 0 && !skip(payload, WEIR_UDP_BYTES)) return false;
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
  while (tunnel != 0 && inner.n < WEIR_MAX_LAYERS - 1) {
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

uint8_t tunnel_in(const Headers& headers, uint8_t tunnels) noexcept {
  return tunnel_of(headers, tunnels);
}

bool decided(Outcome outcome, const Headers& outer, const InnerLayers& inner, uint8_t tunnels) noexcept {
  const Headers& last = inner.n == 0 ? outer : inner.layer[inner.n - 1];
  if (has(outer, WEIR_OPEN_END)) return false;
  for (uint32_t i = 0; i < inner.n; i++) {
    if (has(inner.layer[i], WEIR_OPEN_END)) return false;
  }
  return decided(outcome, last) && (inner.n == WEIR_MAX_LAYERS - 1 || tunnel_of(last, tunnels) == 0);
}

}  // namespace weir::filter
