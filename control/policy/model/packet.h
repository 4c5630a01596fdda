#pragma once

#include <cstdint>

#include "common/ip.h"
#include "filter/format/packet.h"
#include "filter/format/residual.h"

// A packet's addresses and fields as numbers in host order.
namespace weir::control {

template <class Addr>
Addr address_of(const weir_packet& packet, weir_side side) {
  if constexpr (sizeof(Addr) == sizeof(Ipv4)) {
    return __builtin_bswap32(static_cast<uint32_t>(packet.address[side][0]));
  } else {
    return Ipv6{__builtin_bswap64(packet.address[side][0])} << 64 | __builtin_bswap64(packet.address[side][1]);
  }
}

// A packet that came in has both ports or none, and a protocol. A text may leave out one of them: these two bits of
// `has` say which one. No frame's packet has them.
constexpr uint8_t kLacksSport = 1 << 6, kLacksDport = 2 << 6, kLacksProtocol = 3 << 6;
inline uint8_t lacks(const weir_packet& packet) {
  return packet.has & kLacksProtocol;
}
// Mask of weir_asks: no entry that asks for one of these matches the packet.
inline unsigned asks_in_vain(const weir_packet& packet) {
  switch (lacks(packet)) {
    case kLacksSport:
      return WEIR_ASKS_SPORT;
    case kLacksDport:
      return WEIR_ASKS_DPORT;
    case kLacksProtocol:
      return WEIR_ASKS_PROTOCOL;
    default:
      return 0;
  }
}
inline bool has_port(const weir_packet& packet, weir_side side) {
  return (packet.has & WEIR_HAS_PORTS) != 0 && lacks(packet) != (side == WEIR_SIDE_SOURCE ? kLacksSport : kLacksDport);
}
// 0, too: the packet has no such port.
inline uint16_t port_of(const weir_packet& packet, weir_side side) {
  return has_port(packet, side) ? __builtin_bswap16(packet.port[side]) : uint16_t{0};
}
// now: Unix seconds.
inline bool residual_holds(const weir_residual& residual, const weir_packet& packet, uint64_t now) {
  return (residual.asks & asks_in_vain(packet)) == 0 && weir_residual_holds(&residual, &packet, now) != 0;
}

inline void set_address(weir_packet& packet, weir_side side, Ipv4 address) {
  packet.address[side][0] = __builtin_bswap32(address);
}

inline void set_address(weir_packet& packet, weir_side side, Ipv6 address) {
  packet.address[side][0] = __builtin_bswap64(static_cast<uint64_t>(address >> 64));
  packet.address[side][1] = __builtin_bswap64(static_cast<uint64_t>(address));
}

// A member of a packet, whichever field it is of: two bytes are as on the wire (`order` of filter/format/fields.h).
inline unsigned load_member(uint8_t member) {
  return member;
}
inline unsigned load_member(uint32_t member) {
  return member;
}
inline unsigned load_member(uint16_t on_the_wire) {
  return __builtin_bswap16(on_the_wire);
}
inline void store_member(uint8_t& member, unsigned value) {
  member = static_cast<uint8_t>(value);
}
inline void store_member(uint32_t& member, unsigned value) {
  member = value;
}
inline void store_member(uint16_t& on_the_wire, unsigned value) {
  on_the_wire = __builtin_bswap16(static_cast<uint16_t>(value));
}

}  // namespace weir::control
