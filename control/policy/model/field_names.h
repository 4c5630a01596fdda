#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

// The words of a policy file that stand for numbers: protocols, TCP flags, tunnels.
namespace weir::control {

struct NamedBit {
  const char* name;
  uint8_t bit;
};

std::span<const NamedBit> tcp_flag_names();  // bits as in the TCP header (RFC 9293, section 3.1), lowest first
std::span<const NamedBit> tunnel_names();    // bits are enum weir_tunnel

// The names of mask's bits: `syn,ack`; `none` when it is 0.
std::string bit_names(uint8_t mask, std::span<const NamedBit> names, const char* separator = ",");

// What bit_names() wrote with commas; nothing when a word is none of the names.
std::optional<uint8_t> parse_bits(std::string_view text, std::span<const NamedBit> names);

// A name, IANA's spelling of it, or a number from 0 to 255 without leading zeros.
std::optional<uint8_t> parse_protocol(std::string_view text);
// The name, or empty when it has none here.
std::string_view protocol_name(uint8_t protocol);
// Every name, as errors list them.
std::string protocol_names();

// Protocols whose first four bytes are a source and a destination port.
bool has_ports(uint8_t protocol);

constexpr uint8_t kProtocolIcmp = 1, kProtocolTcp = 6, kProtocolUdp = 17,
                  kProtocolIcmpv6 = 58;  // IANA, protocol-numbers

}  // namespace weir::control
