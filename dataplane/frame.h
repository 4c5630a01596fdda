#pragma once

#include <cstddef>
#include <cstdint>

#include "filter/packet.h"

// What the bytes of one frame mean (docs/dataplane.md, "Frames"). Pure: no DPDK, no state, nothing read outside the
// frame, so that tests and the fuzzer can hold it to exact-size buffers.
namespace weir::dataplane {

enum class Outcome : uint8_t { ip, not_ip, malformed };

enum Side : uint8_t { kSource = 0, kDestination = 1 };

using Headers = weir_packet;

constexpr bool has(const Headers& headers, weir_has what) {
  return (headers.has & what) != 0;
}

constexpr uint32_t kEthernetBytes = 14;
constexpr uint32_t kMaxTags = 8;  // VLAN tags and MPLS labels together
constexpr uint32_t kTagBytes = 4;
constexpr uint32_t kPppoeBytes = 8;  // PPPoE header (RFC 2516) and the two-byte PPP protocol
constexpr uint32_t kIpv4Bytes = 20;
constexpr uint32_t kIpv6Bytes = 40;
constexpr uint32_t kMaxExtensions = 16;
constexpr uint32_t kMaxExtensionBytes = 8 * 256;  // its length field counts 8-byte units behind the first
constexpr uint32_t kPortBytes = 4;

// No header that is read can lie further from the frame's start.
constexpr uint32_t kMaxHeaderBytes =
    kEthernetBytes + kMaxTags * kTagBytes + kPppoeBytes + kIpv6Bytes + kMaxExtensions * kMaxExtensionBytes + kPortBytes;

// TCP, UDP, SCTP, DCCP, UDP-Lite: their first four bytes are the ports.
constexpr bool carries_ports(uint8_t protocol) {
  return protocol == 6 || protocol == 17 || protocol == 132 || protocol == 33 || protocol == 136;
}

// length: captured bytes, without FCS. headers is complete when the outcome is ip and undefined otherwise.
Outcome parse_frame(const uint8_t* frame, uint32_t length, Headers& headers) noexcept;

// True when bytes behind `length` could not have changed what parse_frame said (frames of several segments).
inline bool decided(Outcome outcome, const Headers& headers) noexcept {
  return outcome == Outcome::ip && !has(headers, WEIR_INCOMPLETE) &&
         (has(headers, WEIR_HAS_PORTS) || !carries_ports(headers.protocol));
}

}  // namespace weir::dataplane
