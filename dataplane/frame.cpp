#include "dataplane/frame.h"

#include <cstring>

namespace weir::dataplane {

namespace {

// EtherTypes (IEEE 802 numbers, IANA).
constexpr uint16_t kTypeIpv4 = 0x0800;
constexpr uint16_t kTypeIpv6 = 0x86dd;
constexpr uint16_t kTypeMplsUnicast = 0x8847;
constexpr uint16_t kTypeMplsMulticast = 0x8848;
constexpr uint16_t kTypePppoeSession = 0x8864;

constexpr bool is_vlan(uint16_t type) {
  return type == 0x8100 || type == 0x88a8 || type == 0x9100;
}

uint16_t load_be16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] << 8 | bytes[1]);
}

// Ports when the first four bytes behind the last header are in the packet. at <= end is not required.
void read_ports(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers) {
  if (!carries_ports(headers.protocol) || at + kPortBytes > end) return;
  headers.has |= WEIR_HAS_PORTS;
  memcpy(headers.port, frame + at, kPortBytes);
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
bool parse_ipv4(const uint8_t* frame, uint32_t at, uint32_t length, Headers& headers) {
  if (length - at < kIpv4Bytes) return false;
  const uint8_t* ip = frame + at;
  const uint32_t header_bytes = (ip[0] & 15u) * 4;
  if (ip[0] >> 4 != 4 || header_bytes < kIpv4Bytes || header_bytes > length - at) return false;
  const uint32_t total = load_be16(ip + 2);
  if (total != 0 && total < header_bytes) return false;

  headers.family = 4;
  headers.protocol = ip[9];
  headers.has = 0;
  uint32_t address;
  memcpy(&address, ip + 12, sizeof address);
  headers.address[kSource][0] = address;
  memcpy(&address, ip + 16, sizeof address);
  headers.address[kDestination][0] = address;

  const uint32_t end = total == 0 || total > length - at ? length : at + total;
  const bool later_fragment = (load_be16(ip + 6) & 0x1fff) != 0;
  if (!later_fragment) read_ports(frame, at + header_bytes, end, headers);
  return true;
}

// Bytes of the extension header that starts at `at`, by its own length field; 0 when `number` is none that is walked.
// Every such header has at least two bytes in front of `end`, or the answer is more than what is left.
uint32_t extension_bytes(uint8_t number, const uint8_t* frame, uint32_t at, uint32_t end) {
  switch (number) {
    case 0:    // hop-by-hop
    case 43:   // routing
    case 60:   // destination options
    case 135:  // mobility
    case 139:  // HIP
    case 140:  // shim6
      return end - at < 2 ? 8 : (frame[at + 1] + 1u) * 8;
    case 44:  // fragment: fixed, its second byte is reserved
      return 8;
    case 51:  // authentication: in 4-byte units minus 2 (RFC 4302 section 2.2)
      return end - at < 2 ? 8 : (frame[at + 1] + 2u) * 4;
    default:
      return 0;
  }
}

// Walks the chain from `at`. A later fragment ends it: what follows is data of the fragmented packet.
void walk_extensions(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers) {
  for (uint32_t walked = 0;; walked++) {
    const uint32_t bytes = extension_bytes(headers.protocol, frame, at, end);
    if (bytes == 0) break;
    if (walked == kMaxExtensions || bytes > end - at) {
      headers.has |= WEIR_INCOMPLETE;
      return;
    }
    const bool later_fragment = headers.protocol == 44 && (load_be16(frame + at + 2) & 0xfff8) != 0;
    headers.protocol = frame[at];
    if (later_fragment) return;
    at += bytes;
  }
  read_ports(frame, at, end, headers);
}

// False: the header is not trusted.
bool parse_ipv6(const uint8_t* frame, uint32_t at, uint32_t length, Headers& headers) {
  if (length - at < kIpv6Bytes || frame[at] >> 4 != 6) return false;
  const uint8_t* ip = frame + at;
  headers.family = 6;
  headers.protocol = ip[6];
  headers.has = 0;
  memcpy(headers.address[kSource], ip + 8, 16);
  memcpy(headers.address[kDestination], ip + 24, 16);

  const uint32_t payload = load_be16(ip + 4);
  const uint32_t rest = length - at - kIpv6Bytes;
  const uint32_t end = payload == 0 || payload > rest ? length : at + kIpv6Bytes + payload;
  walk_extensions(frame, at + kIpv6Bytes, end, headers);
  return true;
}

// Behind the bottom label only the first nibble tells what follows, and it may be a pseudowire's: an IPv4 header must
// also hold its checksum.
Outcome parse_behind_mpls(const uint8_t* frame, uint32_t at, uint32_t length, Headers& headers) {
  if (at == length) return Outcome::not_ip;
  const uint32_t nibble = frame[at] >> 4;
  if (nibble == 4 && parse_ipv4(frame, at, length, headers) && ipv4_checksum_holds(frame + at, (frame[at] & 15u) * 4)) {
    return Outcome::ip;
  }
  if (nibble == 6 && parse_ipv6(frame, at, length, headers)) return Outcome::ip;
  return Outcome::not_ip;
}

// tags: VLAN tags in front of the first label.
Outcome parse_mpls(const uint8_t* frame, uint32_t at, uint32_t length, uint32_t tags, Headers& headers) {
  for (bool bottom = false; !bottom; at += kTagBytes) {
    if (++tags > kMaxTags || length - at < kTagBytes) return Outcome::malformed;
    bottom = (frame[at + 2] & 1) != 0;
  }
  return parse_behind_mpls(frame, at, length, headers);
}

Outcome parse_pppoe(const uint8_t* frame, uint32_t at, uint32_t length, Headers& headers) {
  if (length - at < kPppoeBytes) return Outcome::malformed;
  if (frame[at] != 0x11 || frame[at + 1] != 0) return Outcome::not_ip;  // version and type 1, code 0: session data
  const uint16_t protocol = load_be16(frame + at + 6);
  at += kPppoeBytes;
  if (protocol == 0x0021) return parse_ipv4(frame, at, length, headers) ? Outcome::ip : Outcome::malformed;
  if (protocol == 0x0057) return parse_ipv6(frame, at, length, headers) ? Outcome::ip : Outcome::malformed;
  return Outcome::not_ip;
}

// type: the frame's EtherType, neither IPv4 nor IPv6.
[[gnu::noinline]] Outcome parse_tagged(const uint8_t* frame, uint32_t length, uint16_t type, Headers& headers) {
  uint32_t at = kEthernetBytes;
  uint32_t tags = 0;
  for (; is_vlan(type); at += kTagBytes) {
    if (++tags > kMaxTags || length - at < kTagBytes) return Outcome::malformed;
    type = load_be16(frame + at + 2);
  }
  switch (type) {
    case kTypeIpv4:
      return parse_ipv4(frame, at, length, headers) ? Outcome::ip : Outcome::malformed;
    case kTypeIpv6:
      return parse_ipv6(frame, at, length, headers) ? Outcome::ip : Outcome::malformed;
    case kTypeMplsUnicast:
    case kTypeMplsMulticast:
      return parse_mpls(frame, at, length, tags, headers);
    case kTypePppoeSession:
      return parse_pppoe(frame, at, length, headers);
    default:
      return Outcome::not_ip;
  }
}

}  // namespace

Outcome parse_frame(const uint8_t* frame, uint32_t length, Headers& headers) noexcept {
  if (length < kEthernetBytes) return Outcome::malformed;
  const uint16_t type = load_be16(frame + 12);
  if (type == kTypeIpv4) {
    return parse_ipv4(frame, kEthernetBytes, length, headers) ? Outcome::ip : Outcome::malformed;
  }
  if (type == kTypeIpv6) {
    return parse_ipv6(frame, kEthernetBytes, length, headers) ? Outcome::ip : Outcome::malformed;
  }
  return parse_tagged(frame, length, type, headers);
}

}  // namespace weir::dataplane
