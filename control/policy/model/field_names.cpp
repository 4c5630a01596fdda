#include "control/policy/model/field_names.h"

#include <algorithm>
#include <charconv>

#include "filter/format/frame_rules.h"
#include "filter/format/snapshot.h"

namespace weir::control {
namespace {

constexpr NamedBit kTcpFlags[] = {{"fin", 1},  {"syn", 2},  {"rst", 4},  {"psh", 8},
                                  {"ack", 16}, {"urg", 32}, {"ece", 64}, {"cwr", 128}};

constexpr NamedBit kTunnels[] = {
    {"ipip", WEIR_TUNNEL_IPIP},     {"6in4", WEIR_TUNNEL_6IN4},     {"gre", WEIR_TUNNEL_GRE},
    {"vxlan", WEIR_TUNNEL_VXLAN},   {"geneve", WEIR_TUNNEL_GENEVE}, {"gtpu", WEIR_TUNNEL_GTPU},
    {"teredo", WEIR_TUNNEL_TEREDO},
};

struct Protocol {
  const char* name;
  uint8_t number;
};

// IANA, protocol-numbers. Of several names for a number the first is the one that texts show.
constexpr Protocol kProtocols[] = {
    {"tcp", kProtocolTcp},
    {"udp", 17},
    {"sctp", 132},
    {"dccp", 33},
    {"udplite", 136},
    {"icmp", kProtocolIcmp},
    {"icmpv6", kProtocolIcmpv6},
    {"gre", 47},
    {"esp", 50},
    {"ah", 51},
    {"ipip", 4},
    {"ipv6", 41},
    {"igmp", 2},
    {"ospf", 89},
    {"pim", 103},
    {"vrrp", 112},
    {"l2tp", 115},
    {"udp-lite", 136},
    {"ipv6-icmp", kProtocolIcmpv6},
    {"icmp6", kProtocolIcmpv6},
};

}  // namespace

std::span<const NamedBit> tcp_flag_names() {
  return kTcpFlags;
}

std::span<const NamedBit> tunnel_names() {
  return kTunnels;
}

std::string bit_names(uint8_t mask, std::span<const NamedBit> names, const char* separator) {
  std::string text;
  for (const auto& [name, bit] : names) {
    if ((mask & bit) != 0) text += (text.empty() ? "" : separator) + std::string(name);
  }
  return text.empty() ? "none" : text;
}

std::optional<uint8_t> parse_bits(std::string_view text, std::span<const NamedBit> names) {
  uint8_t bits = 0;
  if (text == "none") return bits;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const std::string_view word = text.substr(from, comma - from);
    const auto known = std::find_if(names.begin(), names.end(), [&](const NamedBit& bit) { return bit.name == word; });
    if (known == names.end()) return std::nullopt;
    bits |= known->bit;
    from = comma + 1;
  }
  return bits;
}

std::optional<uint8_t> parse_protocol(std::string_view text) {
  for (const auto& [name, number] : kProtocols) {
    if (text == name) return number;
  }
  uint8_t number = 0;
  const char* end = text.data() + text.size();
  const auto [read_to, failure] = std::from_chars(text.data(), end, number);
  const bool leading_zero = text.size() > 1 && text[0] == '0';
  if (failure != std::errc{} || read_to != end || leading_zero) return std::nullopt;
  return number;
}

std::string_view protocol_name(uint8_t protocol) {
  for (const auto& [name, number] : kProtocols) {
    if (number == protocol) return name;
  }
  return {};
}

std::string protocol_names() {
  std::string names;
  for (const auto& [name, number] : kProtocols) {
    if (protocol_name(number) == name) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

bool has_ports(uint8_t protocol) {
  return (weir_carries(protocol) & WEIR_HAS_PORTS) != 0;
}

}  // namespace weir::control
