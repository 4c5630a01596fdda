#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "filter/format/frame_rules.h"
#include "filter/format/packet.h"

// What the bytes of one frame mean (docs/operate/dataplane.md, "Frames"). Pure: no DPDK, no state, nothing read outside
// the frame, so that tests and the fuzzer can hold it to exact-size buffers. What tunnels hold:
// filter/frame/tunnel.h.
namespace weir::filter {

constexpr uint16_t load_be16(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] << 8 | bytes[1]);
}

enum class Outcome : uint8_t { ip, not_ip, malformed };

enum Side : uint8_t { kSource = 0, kDestination = 1 };

using Headers = weir_packet;

constexpr bool has(const Headers& headers, weir_has what) {
  return (headers.has & what) != 0;
}

constexpr uint32_t kMaxExtensionBytes = 8 * 256;  // its length field counts 8-byte units behind the first

// No header that is read can lie further from the start of a frame, or of a packet in it.
constexpr uint32_t kMaxLinkBytes = WEIR_ETHERNET_BYTES + WEIR_MAX_TAGS * WEIR_TAG_BYTES + WEIR_PPPOE_BYTES;
constexpr uint32_t kMaxIpBytes = WEIR_IPV6_BYTES + WEIR_MAX_EXTENSIONS * kMaxExtensionBytes;
constexpr uint32_t kMaxHeaderBytes = kMaxLinkBytes + kMaxIpBytes + WEIR_TCP_FLAG_BYTES;

// length: captured bytes, without FCS. headers is complete when the outcome is ip and undefined otherwise.
Outcome parse_frame(const uint8_t* frame, uint32_t length, Headers& headers) noexcept;

// True when bytes behind `length` could not have changed what parse_frame said (frames of several segments).
inline bool decided(Outcome outcome, const Headers& headers) noexcept {
  return outcome == Outcome::ip && (headers.has & (WEIR_INCOMPLETE | WEIR_OPEN_END)) == 0 &&
         (headers.has & weir_carries(headers.protocol)) == weir_carries(headers.protocol);
}

// The frame that most are: IPv4 without options, or IPv6 without extension headers, behind the Ethernet header and at
// most WEIR_PLAIN_TAGS VLAN tags. These say so, and no more, in a few instructions; where one says no, parse_frame
// tells. Such a frame's outcome is ip, and it is not incomplete. The packet ends within the frame.
//
// head: the eight bytes from the EtherType on, as a little-endian load has them. ip: the packet, whose first six bytes
// are in head; room: bytes from there to the end of what was captured, at least WEIR_IPV4_BYTES.
constexpr bool begins_plain_ipv4(uint64_t head) {  // 08 00, version 4 and a header of 20 bytes
  return (head & 0xffffff) == 0x450008;
}
constexpr bool begins_ipv6(uint64_t head) {  // 86 dd, version 6
  return (head & 0xf0ffff) == 0x60dd86;
}
// Of IPv4: its total length is at least this, and no more than there is.
constexpr bool has_plain_length(uint64_t head, uint32_t least_total, uint32_t room) {
  const uint32_t total = __builtin_bswap16(static_cast<uint16_t>(head >> 32));
  return room >= least_total && total - least_total <= room - least_total;
}
// Of IPv4: it is no fragment either, and has as many bytes behind its header as any field of a transport header takes.
inline bool has_plain_transport(uint64_t head, const uint8_t* ip, uint32_t room) noexcept {
  static_assert(WEIR_TCP_FLAG_BYTES >= WEIR_PORT_BYTES && WEIR_TCP_FLAG_BYTES >= WEIR_ICMP_BYTES);
  if (!has_plain_length(head, WEIR_IPV4_BYTES + WEIR_TCP_FLAG_BYTES, room)) return false;
  constexpr uint16_t kMoreFragmentsAndOffset = 0x3fff;
  return (load_be16(ip + 6) & kMoreFragmentsAndOffset) == 0;
}
// Of IPv6: no extension header is behind it, and its payload length is not 0, and no more than there is.
inline bool is_plain_ipv6(const uint8_t* ip, uint32_t room) noexcept {
  if (room < WEIR_IPV6_BYTES) return false;
  const uint32_t payload = load_be16(ip + 4);
  return payload - 1 < room - WEIR_IPV6_BYTES && weir_extension_bytes(ip[6], 0) == 0;
}

// The parts of parse_frame, for what lies in tunnels. `at` <= `end` <= the frame's length; nothing from `end` on is
// read.

// What follows the last header that was walked: from `at`, to the packet's end. Empty, at 0, behind a later fragment or
// an incomplete chain. at <= end.
struct Payload {
  uint32_t at, end;
};

// An Ethernet frame from `at`. headers and payload are complete when the outcome is ip.
Outcome parse_ethernet(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers, Payload& payload) noexcept;
// The labels that begin at `at`, and what is behind them.
Outcome parse_mpls(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers, Payload& payload) noexcept;
// False: the header is not trusted.
bool parse_ipv4(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers, Payload& payload) noexcept;
bool parse_ipv6(const uint8_t* frame, uint32_t at, uint32_t end, Headers& headers, Payload& payload) noexcept;

}  // namespace weir::filter
