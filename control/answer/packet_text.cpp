#include "control/answer/packet_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "common/ip.h"
#include "control/model/field_names.h"
#include "control/model/packet.h"

namespace weir::control {
namespace {

constexpr const char* kHint =
    "hint: give a packet as in src 10.0.0.1 dst 203.0.113.9 proto tcp sport 40000 dport 443; or an address, or "
    "address:port ([v6]:port)";
constexpr uint8_t kNoProtocol = 253;  // RFC 3692, "use for experimentation": no entry is likely to name it

struct Address {
  uint8_t family;
  Ipv6 value;
};

// What was read so far.
struct PacketFields {
  std::optional<Address> address[2];
  std::optional<uint8_t> protocol, icmp_type, icmp_code, tcp_flags, dscp, fragment;
  std::optional<uint32_t> length;
  std::optional<uint16_t> port[2];
};

template <class T>
bool read_number(std::string_view text, unsigned least, std::optional<T>& number) {
  T value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < least) return false;
  number = value;
  return true;
}

bool read_address(std::string_view text, std::optional<Address>& address) {
  if (const auto v4 = parse_ipv4(text)) {
    address = {4, *v4};
  } else if (const auto v6 = parse_ipv6(text)) {
    address = {6, *v6};
  }
  return address.has_value();
}

bool read_tcp_flags(std::string_view text, std::optional<uint8_t>& flags) {
  const auto names = tcp_flag_names();
  flags = uint8_t{0};
  while (text != "none") {
    const std::string_view name = text.substr(0, text.find(','));
    const auto named = std::find_if(names.begin(), names.end(), [&](const NamedBit& bit) { return bit.name == name; });
    if (named == names.end()) return false;
    flags = static_cast<uint8_t>(*flags | named->bit);
    if (name.size() == text.size()) break;
    text.remove_prefix(name.size() + 1);
  }
  return true;
}

bool read_protocol(std::string_view text, std::optional<uint8_t>& protocol) {
  protocol = parse_protocol(text);
  return protocol.has_value();
}

constexpr std::string_view kFragments[] = {"none", "first", "later"};  // enum weir_fragment

bool read_fragment(std::string_view text, std::optional<uint8_t>& fragment) {
  const auto found = std::find(std::begin(kFragments), std::end(kFragments), text);
  if (found != std::end(kFragments)) fragment = static_cast<uint8_t>(found - std::begin(kFragments));
  return fragment.has_value();
}

struct FieldName {
  std::string_view name;
  bool (*is_given)(const PacketFields&);
  bool (*read)(std::string_view text, PacketFields&);
  const char* wanted;
};
constexpr FieldName kFields[] = {
    {"src", [](const PacketFields& f) { return f.address[0].has_value(); },
     [](std::string_view text, PacketFields& f) { return read_address(text, f.address[0]); }, "an address"},
    {"dst", [](const PacketFields& f) { return f.address[1].has_value(); },
     [](std::string_view text, PacketFields& f) { return read_address(text, f.address[1]); }, "an address"},
    {"proto", [](const PacketFields& f) { return f.protocol.has_value(); },
     [](std::string_view text, PacketFields& f) { return read_protocol(text, f.protocol); },
     "a protocol's name or number, 0 to 255"},
    {"sport", [](const PacketFields& f) { return f.port[0].has_value(); },
     [](std::string_view text, PacketFields& f) { return read_number(text, 1, f.port[0]); }, "a port from 1 to 65535"},
    {"dport", [](const PacketFields& f) { return f.port[1].has_value(); },
     [](std::string_view text, PacketFields& f) { return read_number(text, 1, f.port[1]); }, "a port from 1 to 65535"},
    {"icmp-type", [](const PacketFields& f) { return f.icmp_type.has_value(); },
     [](std::string_view text, PacketFields& f) { return read_number(text, 0, f.icmp_type); },
     "a number from 0 to 255"},
    {"icmp-code", [](const PacketFields& f) { return f.icmp_code.has_value(); },
     [](std::string_view text, PacketFields& f) { return read_number(text, 0, f.icmp_code); },
     "a number from 0 to 255"},
    {"tcp-flags", [](const PacketFields& f) { return f.tcp_flags.has_value(); },
     [](std::string_view text, PacketFields& f) { return read_tcp_flags(text, f.tcp_flags); },
     "TCP flags, as in syn,ack"},
    {"length", [](const PacketFields& f) { return f.length.has_value(); },
     [](std::string_view text, PacketFields& f) { return read_number(text, 1, f.length); }, "a number of bytes"},
    {"dscp", [](const PacketFields& f) { return f.dscp.has_value(); },
     [](std::string_view text, PacketFields& f) { return read_number(text, 0, f.dscp) && *f.dscp < 64; },
     "a number from 0 to 63"},
    {"fragment", [](const PacketFields& f) { return f.fragment.has_value(); },
     [](std::string_view text, PacketFields& f) { return read_fragment(text, f.fragment); }, "none, first or later"},
};

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) return words;
    words.push_back(text.substr(0, text.find_first_of(kBlanks)));
    text.remove_prefix(words.back().size());
  }
}

Error wrong(std::string_view what) {
  return Error{fmt::format("{}\n{}", what, kHint)};
}

Result<PacketFields> read_fields(std::string_view text) {
  PacketFields fields;
  const std::vector<std::string_view> words = words_of(text);
  for (size_t i = 0; i < words.size(); i += 2) {
    const auto field =
        std::find_if(std::begin(kFields), std::end(kFields), [&](const FieldName& f) { return f.name == words[i]; });
    if (field == std::end(kFields)) {
      std::string known;
      for (const FieldName& one : kFields) known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
      return wrong(fmt::format("`{}` is no field of a packet; there are {}", words[i], known));
    }
    if (field->is_given(fields)) return wrong(fmt::format("`{}` is given twice", field->name));
    if (i + 1 == words.size()) return wrong(fmt::format("`{}` has no value", field->name));
    if (!field->read(words[i + 1], fields)) {
      return wrong(fmt::format("`{}` is `{}`: it must be {}", field->name, words[i + 1], field->wanted));
    }
  }
  return fields;
}

bool is_icmp(uint8_t protocol) {
  return protocol == kProtocolIcmp || protocol == kProtocolIcmpv6;
}

// Empty: such a packet exists.
std::string impossible(const PacketFields& fields) {
  for (const int side : {0, 1}) {
    if (!fields.address[side])
      return fmt::format("a packet has both addresses: `{}` is missing", side == 0 ? "src" : "dst");
  }
  if (fields.address[0]->family != fields.address[1]->family) return "`src` and `dst` are of different families";
  const bool ports = fields.port[0] || fields.port[1], icmp = fields.icmp_type || fields.icmp_code;
  if (!fields.protocol && (ports || icmp || fields.tcp_flags)) {
    return fmt::format("`proto` is missing: {} depend on it", ports ? "ports" : icmp ? "ICMP fields" : "TCP flags");
  }
  if (ports && !has_ports(*fields.protocol)) return "packets of this protocol have no ports";
  if (icmp && !is_icmp(*fields.protocol)) return "packets of this protocol have no ICMP header";
  if (fields.tcp_flags && *fields.protocol != kProtocolTcp) return "packets of this protocol have no TCP flags";
  return "";
}

}  // namespace

Result<weir_packet> parse_packet(std::string_view text) {
  const Result<PacketFields> fields = read_fields(text);
  if (!fields) return Error{fields.error()};
  if (const std::string why = impossible(*fields); !why.empty()) return wrong(why);
  weir_packet packet = {};
  packet.family = fields->address[0]->family;
  packet.protocol = fields->protocol.value_or(kNoProtocol);
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    const Ipv6 address = fields->address[side]->value;
    packet.family == 4 ? set_address(packet, side, static_cast<Ipv4>(address)) : set_address(packet, side, address);
    packet.port[side] = __builtin_bswap16(fields->port[side].value_or(0));
  }
  const auto has = [&](weir_has what) { packet.has = static_cast<uint8_t>(packet.has | what); };
  if (fields->port[0] || fields->port[1]) has(WEIR_HAS_PORTS);
  if (fields->icmp_type) has(WEIR_HAS_ICMP_TYPE);
  if (fields->icmp_code) has(WEIR_HAS_ICMP_CODE);
  if (fields->tcp_flags) has(WEIR_HAS_TCP_FLAGS);
  packet.icmp_type = fields->icmp_type.value_or(0);
  packet.icmp_code = fields->icmp_code.value_or(0);
  packet.tcp_flags = fields->tcp_flags.value_or(0);
  packet.length = fields->length.value_or(0);
  packet.dscp = fields->dscp.value_or(0);
  packet.fragment = fields->fragment.value_or(WEIR_FRAGMENT_NONE);
  return packet;
}

std::string packet_text(const weir_packet& packet) {
  const auto address = [&](weir_side side) {
    return packet.family == 4 ? to_string(address_of<Ipv4>(packet, side)) : to_string(address_of<Ipv6>(packet, side));
  };
  std::string text = fmt::format("src {} dst {}", address(WEIR_SIDE_SOURCE), address(WEIR_SIDE_DESTINATION));
  if (packet.protocol != kNoProtocol) {
    const std::string_view name = protocol_name(packet.protocol);
    text += " proto " + (name.empty() ? std::to_string(packet.protocol) : std::string(name));
  }
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    if (const uint16_t port = port_of(packet, side); port != 0) {
      text += fmt::format(" {} {}", side == WEIR_SIDE_SOURCE ? "sport" : "dport", port);
    }
  }
  if ((packet.has & WEIR_HAS_ICMP_TYPE) != 0) text += fmt::format(" icmp-type {}", packet.icmp_type);
  if ((packet.has & WEIR_HAS_ICMP_CODE) != 0) text += fmt::format(" icmp-code {}", packet.icmp_code);
  if ((packet.has & WEIR_HAS_TCP_FLAGS) != 0) text += " tcp-flags " + bit_names(packet.tcp_flags, tcp_flag_names());
  if (packet.length != 0) text += fmt::format(" length {}", packet.length);
  if (packet.dscp != 0) text += fmt::format(" dscp {}", packet.dscp);
  if (packet.fragment != WEIR_FRAGMENT_NONE) text += fmt::format(" fragment {}", kFragments[packet.fragment]);
  return text;
}

}  // namespace weir::control
