#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

__extension__ typedef unsigned __int128 uint128_t;

// Addresses as numbers in host order, so that ranges compare and count: IPv4 1.2.3.4 = 0x01020304.
using Ipv4 = uint32_t;
using Ipv6 = uint128_t;

template <class Addr>
constexpr unsigned kAddrBits = sizeof(Addr) * 8;

// Mask of the leading prefix_bits (0..width) bits.
template <class Addr>
constexpr Addr prefix_mask(unsigned prefix_bits) {
  return prefix_bits == 0 ? Addr{0} : static_cast<Addr>(~Addr{0} << (kAddrBits<Addr> - prefix_bits));
}

// Dotted quad: four decimal octets of 1..3 digits, no leading zeros, nothing around them.
std::optional<Ipv4> parse_ipv4(std::string_view text);
// RFC 4291 text. No zone id, no prefix length, no brackets. IPv4-mapped addresses parse; is_ipv4_mapped() tells.
std::optional<Ipv6> parse_ipv6(std::string_view text);
bool is_ipv4_mapped(Ipv6 address);  // ::ffff:0:0/96

std::string to_string(Ipv4 address);
std::string to_string(Ipv6 address);  // RFC 5952

// Network order, as in a packet.
std::array<uint8_t, 4> to_bytes(Ipv4 address);
std::array<uint8_t, 16> to_bytes(Ipv6 address);
Ipv4 ipv4_from_bytes(const uint8_t bytes[4]);
Ipv6 ipv6_from_bytes(const uint8_t bytes[16]);

}  // namespace weir
