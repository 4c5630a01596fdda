#include "filter/frame/frame.h"

#include <array>
#include <cstring>

namespace weir::filter {

namespace {

constexpr std::array<uint8_t, 256> kCarries = [] {
  std::array<uint8_t, 256> table = {};
  for (unsigned protocol = 0; protocol < table.size(); protocol++) {
    table[protocol] = static_cast<uint8_t>(weir_carries(protocol));
  }
  return table;
}();

// Ports, TCP flags, ICMP type and code, when their bytes are in the packet. at <= end. Where a field is, but is not the
// protocol's, anything may stand in it: `has` does not name it.
inline void read_transport(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers) {
  const uint32_t carried = kCarries[headers.protocol];
  const uint32_t bytes = end - at;
  if ((carried & WEIR_HAS_PORTS) != 0) {
    if (bytes < WEIR_PORT_BYTES) return;
    memcpy(headers.port, frame + at, WEIR_PORT_BYTES);
    const bool with_flags = bytes >= WEIR_TCP_FLAG_BYTES;  // no branch: TCP and UDP come in any order
    headers.tcp_flags = frame[at + (with_flags ? WEIR_TCP_FLAG_BYTES - 1 : 0)];
    headers.has |= static_cast<uint8_t>(carried & (with_flags ? ~0u : ~uint32_t{WEIR_HAS_TCP_FLAGS}));
  } else if (carried != 0 && bytes > 0) {  // ICMP: each byte by itself
    const bool with_code = bytes >= WEIR_ICMP_BYTES;
    headers.icmp_type = frame[at];
    headers.icmp_code = frame[at + with_code];
    headers.has |= static_cast<uint8_t>(carried & (with_code ? ~0u : ~uint32_t{WEIR_HAS_ICMP_CODE}));
  }
}

// RFC 1071 sum over a header of ihl 4-byte words.
bool ipv4_checksum_holds(const uint8_t* header, uint32_t header_bytes) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < header_bytes; i += 2) sum += load_be16(header + i);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

// False: the header is not trusted.
inline bool read_ipv4(const uint8_t* frame, uint32_t at, uint32_t length, Headers& headers, Payload& payload) {
  if (length - at < WEIR_IPV4_BYTES) return false;
  const uint8_t* ip = frame + at;
  const uint32_t header_bytes = (ip[0] & 15u) * 4;
  if (ip[0] >> 4 != 4 || header_bytes < WEIR_IPV4_BYTES || header_bytes > length - at) return false;
  const uint32_t total = load_be16(ip + 2);
  if (total != 0 && total < header_bytes) return false;

  headers.family = 4;
  headers.protocol = ip[9];
  headers.has = total == 0 ? WEIR_OPEN_END : 0;
  headers.length = total == 0 ? length - at : total;
  headers.dscp = ip[1] >> 2;
  headers.fragment = weir_fragment_of_ipv4(load_be16(ip + 6));
  uint32_t address;
  memcpy(&address, ip + 12, sizeof address);
  headers.address[kSource][0] = address;
  memcpy(&address, ip + 16, sizeof address);
  headers.address[kDestination][0] = address;

  const uint32_t end = total == 0 || total > length - at ? length : at + total;
  const bool later_fragment = headers.fragment == WEIR_FRAGMENT_LATER;
  payload = later_fragment ? Payload{0, 0} : Payload{at + header_bytes, end};
  if (!later_fragment) read_transport(frame, at + header_bytes, end, headers);
  return true;
}

// Bytes of the extension header that starts at `at`, by its own length field; 0 when `number` is none that is walked.
// Every such header has at least two bytes in front of `end`, or the answer is more than what is left.
uint32_t extension_bytes(uint8_t number, const uint8_t* frame, uint32_t at, uint32_t end) {
  return weir_extension_bytes(number, end - at < 2 ? 0 : frame[at + 1]);
}

// Walks the chain from `at`. A later fragment ends it: what follows is data of the fragmented packet.
inline void walk_extensions(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers, Payload& payload) {
  payload = {0, 0};
  for (uint32_t walked = 0;; walked++) {
    const uint32_t bytes = extension_bytes(headers.protocol, frame, at, end);
    if (bytes == 0) break;
    if (walked == WEIR_MAX_EXTENSIONS || bytes > end - at) {
      headers.has |= WEIR_INCOMPLETE;
      return;
    }
    if (headers.protocol == 44) {
      const uint8_t fragment = weir_fragment_of_ipv6(load_be16(frame + at + 2));
      if (fragment != WEIR_FRAGMENT_NONE) headers.fragment = fragment;
    }
    headers.protocol = frame[at];
    if (headers.fragment == WEIR_FRAGMENT_LATER) return;
    at += bytes;
  }
  payload = {at, end};
  read_transport(frame, at, end, headers);
}

// False: the header is not trusted.
inline bool read_ipv6(const uint8_t* frame, uint32_t at, uint32_t length, Headers& headers, Payload& payload) {
  if (length - at < WEIR_IPV6_BYTES || frame[at] >> 4 != 6) return false;
  const uint8_t* ip = frame + at;
  const uint32_t told = load_be16(ip + 4);  // bytes behind the header
  headers.family = 6;
  headers.protocol = ip[6];
  headers.has = told == 0 ? WEIR_OPEN_END : 0;
  headers.length = told == 0 ? length - at : WEIR_IPV6_BYTES + told;
  headers.dscp = static_cast<uint8_t>((load_be16(ip) & 0x0fff) >> 6);
  headers.fragment = WEIR_FRAGMENT_NONE;
  memcpy(headers.address[kSource], ip + 8, 16);
  memcpy(headers.address[kDestination], ip + 24, 16);

  const uint32_t rest = length - at - WEIR_IPV6_BYTES;
  const uint32_t end = told == 0 || told > rest ? length : at + WEIR_IPV6_BYTES + told;
  walk_extensions(frame, at + WEIR_IPV6_BYTES, end, headers, payload);
  return true;
}

// Behind the bottom label only the first nibble tells what follows, and it may be a pseudowire's: an IPv4 header must
// also hold its checksum.
Outcome read_behind_mpls(const uint8_t* frame, uint32_t at, uint32_t length, Headers& headers, Payload& payload) {
  if (at == length) return Outcome::not_ip;
  const uint32_t nibble = frame[at] >> 4;
  if (nibble == 4 && read_ipv4(frame, at, length, headers, payload) &&
      ipv4_checksum_holds(frame + at, (frame[at] & 15u) * 4)) {
    return Outcome::ip;
  }
  if (nibble == 6 && read_ipv6(frame, at, length, headers, payload)) return Outcome::ip;
  return Outcome::not_ip;
}

// tags: VLAN tags in front of the first label.
Outcome read_mpls(const uint8_t* frame, uint32_t at, uint32_t length, uint32_t tags, Headers& headers,
                  Payload& payload) {
  for (bool bottom = false; !bottom; at += WEIR_TAG_BYTES) {
    if (++tags > WEIR_MAX_TAGS || length - at < WEIR_TAG_BYTES) return Outcome::malformed;
    bottom = (frame[at + 2] & 1) != 0;
  }
  return read_behind_mpls(frame, at, length, headers, payload);
}

Outcome read_pppoe(const uint8_t* frame, uint32_t at, uint32_t length, Headers& headers, Payload& payload) {
  if (length - at < WEIR_PPPOE_BYTES) return Outcome::malformed;
  if (!weir_is_pppoe_data(frame[at], frame[at + 1])) return Outcome::not_ip;
  const uint16_t protocol = load_be16(frame + at + 6);
  at += WEIR_PPPOE_BYTES;
  if (protocol == WEIR_PPP_IPV4)
    return read_ipv4(frame, at, length, headers, payload) ? Outcome::ip : Outcome::malformed;
  if (protocol == WEIR_PPP_IPV6)
    return read_ipv6(frame, at, length, headers, payload) ? Outcome::ip : Outcome::malformed;
  return Outcome::not_ip;
}

// type: the EtherType in front of `at`, neither IPv4 nor IPv6.
[[gnu::noinline]] Outcome read_tagged(const uint8_t* frame, uint32_t at, uint32_t length, uint16_t type,
                                      Headers& headers, Payload& payload) {
  uint32_t tags = 0;
  for (; weir_is_vlan(type); at += WEIR_TAG_BYTES) {
    if (++tags > WEIR_MAX_TAGS || length - at < WEIR_TAG_BYTES) return Outcome::malformed;
    type = load_be16(frame + at + 2);
  }
  switch (type) {
    case WEIR_TYPE_IPV4:
      return read_ipv4(frame, at, length, headers, payload) ? Outcome::ip : Outcome::malformed;
    case WEIR_TYPE_IPV6:
      return read_ipv6(frame, at, length, headers, payload) ? Outcome::ip : Outcome::malformed;
    case WEIR_TYPE_MPLS_UNICAST:
    case WEIR_TYPE_MPLS_MULTICAST:
      return read_mpls(frame, at, length, tags, headers, payload);
    case WEIR_TYPE_PPPOE_SESSION:
      return read_pppoe(frame, at, length, headers, payload);
    default:
      return Outcome::not_ip;
  }
}

// at <= length.
inline Outcome read_ethernet(const uint8_t* frame, uint32_t at, uint32_t length, Headers& headers, Payload& payload) {
  if (length - at < WEIR_ETHERNET_BYTES) return Outcome::malformed;
  const uint16_t type = load_be16(frame + at + 12);
  at += WEIR_ETHERNET_BYTES;
  if (type == WEIR_TYPE_IPV4) {
    return read_ipv4(frame, at, length, headers, payload) ? Outcome::ip : Outcome::malformed;
  }
  if (type == WEIR_TYPE_IPV6) {
    return read_ipv6(frame, at, length, headers, payload) ? Outcome::ip : Outcome::malformed;
  }
  return read_tagged(frame, at, length, type, headers, payload);
}

// A plain frame with its transport header. Says what read_ethernet says, in half the instructions; false: not such a
// frame.
inline bool read_plain_ipv4(const uint8_t* frame, uint32_t at, uint32_t length, Headers& headers, Payload& payload) {
  if (length - at < WEIR_ETHERNET_BYTES + WEIR_IPV4_BYTES) return false;
  const uint8_t* ip = frame + at + WEIR_ETHERNET_BYTES;
  uint64_t head;
  memcpy(&head, ip - 2, sizeof head);
  if (!begins_plain_ipv4(head) || !has_plain_transport(head, ip, length - at - WEIR_ETHERNET_BYTES)) return false;
  const uint8_t* transport = ip + WEIR_IPV4_BYTES;
  const uint32_t total = load_be16(ip + 2);
  headers.family = 4;
  headers.protocol = ip[9];
  headers.has = kCarries[headers.protocol];
  headers.length = total;
  headers.dscp = ip[1] >> 2;
  headers.fragment = WEIR_FRAGMENT_NONE;
  uint32_t address[2];
  memcpy(address, ip + 12, sizeof address);
  headers.address[kSource][0] = address[kSource];
  headers.address[kDestination][0] = address[kDestination];
  memcpy(headers.port, transport, WEIR_PORT_BYTES);
  headers.icmp_type = transport[0];
  headers.icmp_code = transport[1];
  headers.tcp_flags = transport[WEIR_TCP_FLAG_BYTES - 1];
  payload = {at + WEIR_ETHERNET_BYTES + WEIR_IPV4_BYTES, at + WEIR_ETHERNET_BYTES + total};
  return true;
}

}  // namespace

Outcome parse_frame(const uint8_t* frame, uint32_t length, Headers& headers) noexcept {
  Payload ignored;
  if (read_plain_ipv4(frame, 0, length, headers, ignored)) return Outcome::ip;
  return read_ethernet(frame, 0, length, headers, ignored);
}

Outcome parse_ethernet(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers, Payload& payload) noexcept {
  if (read_plain_ipv4(frame, at, end, headers, payload)) return Outcome::ip;
  return read_ethernet(frame, at, end, headers, payload);
}

Outcome parse_mpls(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers, Payload& payload) noexcept {
  return read_mpls(frame, at, end, 0, headers, payload);
}

bool parse_ipv4(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers, Payload& payload) noexcept {
  return read_ipv4(frame, at, end, headers, payload);
}

bool parse_ipv6(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers, Payload& payload) noexcept {
  return read_ipv6(frame, at, end, headers, payload);
}

}  // namespace weir::filter
