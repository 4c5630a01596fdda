#include "control/policy/feeds/entry_text.h"

#include <algorithm>

namespace weir::control {
namespace {

constexpr EntryError kNotAnAddress{"not an address, prefix, range or address:port",
                                   "examples: 203.0.113.7, 203.0.113.0/24, 203.0.113.1-203.0.113.9, 203.0.113.7:443, "
                                   "2001:db8::/32, [2001:db8::7]:443"};
constexpr EntryError kLeadingZero{"leading zero in an octet", "write 10, not 010: some programs read that as octal 8"};
constexpr EntryError kOctetRange{"an octet is larger than 255", "octets are 0 to 255"};
constexpr EntryError kMapped{"IPv4-mapped IPv6 never appears in a packet", "write the IPv4 address itself"};
constexpr EntryError kZone{"zone ids name an interface, not a packet", "write the address without the % part"};
constexpr EntryError kPortNeedsAddress{"a port needs a single address", "write address:port or [address]:port"};
constexpr EntryError kPortNumber{"the port is not a number from 1 to 65535",
                                 "without leading zeros; leave it out to mean every port"};
constexpr EntryError kBrackets{"brackets hold an IPv6 address with its port", "as in [2001:db8::7]:443"};
constexpr EntryError kNoLength{"the prefix length is missing",
                               "an IPv4 prefix is /0 to /32, an IPv6 prefix /0 to /128"};
constexpr EntryError kLengthNumber{"the prefix length is not a number", "as in 203.0.113.0/24"};
constexpr EntryError kLengthZero{"leading zero in a prefix length", "write /8, not /08"};
constexpr EntryError kLength4{"the prefix length is larger than 32", "an IPv4 prefix is /0 to /32"};
constexpr EntryError kLength6{"the prefix length is larger than 128", "an IPv6 prefix is /0 to /128"};
constexpr EntryError kNetmask{"the netmask is not a row of ones, then zeros",
                              "as in 203.0.113.0/255.255.255.0; host masks are not read"};
constexpr EntryError kRangeEnd{"the range has no address after its hyphen", "as in 203.0.113.1-203.0.113.9"};
constexpr EntryError kRangeFamilies{"the range begins and ends in different families",
                                    "write one range for each family"};
constexpr EntryError kReversed{"the range ends before it begins", "swap its ends"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// 0..limit; limit + 1 for every larger number; empty when it is no number.
std::optional<uint32_t> decimal(std::string_view text, uint32_t limit) {
  if (text.empty()) return std::nullopt;
  uint32_t value = 0;
  for (char c : text) {
    if (!is_digit(c)) return std::nullopt;
    value = value > limit ? limit + 1 : value * 10 + static_cast<uint32_t>(c - '0');
  }
  return value > limit ? limit + 1 : value;
}

// Why text, where an address is due, is none.
EntryError why_no_address(std::string_view text) {
  if (text.find('%') != std::string_view::npos) return kZone;
  unsigned dots = 0, digits = 0, value = 0;
  bool leading_zero = false, too_large = false;
  for (size_t i = 0; i <= text.size(); i++) {
    if (i < text.size() && is_digit(text[i])) {
      if (digits == 1 && value == 0) leading_zero = true;
      if (++digits > 3) return kNotAnAddress;
      value = value * 10 + static_cast<unsigned>(text[i] - '0');
      too_large |= value > 255;
    } else {
      if (digits == 0 || (i < text.size() && text[i] != '.')) return kNotAnAddress;
      dots += i < text.size();
      digits = value = 0;
    }
  }
  if (dots != 3) return kNotAnAddress;
  return leading_zero ? kLeadingZero : too_large ? kOctetRange : kNotAnAddress;
}

template <class Addr>
ParsedEntry<Addr> entry_of(Addr first, Addr last) {
  return {{first, last, 0, 0, 0, 0}, {.is_any = first == 0 && last == static_cast<Addr>(~Addr{0})}};
}

// Octets of one to three digits; zeros may stand before others: 001.002.003.004.
std::optional<Ipv4> parse_padded_ipv4(std::string_view text) {
  Ipv4 address = 0;
  for (int octet = 0; octet < 4; octet++) {
    const size_t digits = octet < 3 ? text.find('.') : text.size();
    const auto value = digits <= 3 ? decimal(text.substr(0, digits), 255) : std::nullopt;
    if (!value || *value > 255) return std::nullopt;
    address = address << 8 | *value;
    text.remove_prefix(std::min(digits + 1, text.size()));
  }
  return address;
}

// One address of either family.
EntryText parse_address(std::string_view text, LeadingZeros octets = LeadingZeros::refused) {
  if (text.find(':') == std::string_view::npos) {
    if (auto address = octets == LeadingZeros::decimal ? parse_padded_ipv4(text) : parse_ipv4(text)) {
      return entry_of(*address, *address);
    }
    return why_no_address(text);
  }
  if (auto address = parse_ipv6(text)) {
    if (is_ipv4_mapped(*address)) return kMapped;
    return entry_of(*address, *address);
  }
  return why_no_address(text);
}

template <class Addr>
EntryText prefix(Addr address, uint32_t length) {
  const Addr mask = prefix_mask<Addr>(length);
  ParsedEntry<Addr> entry = entry_of<Addr>(address & mask, address | static_cast<Addr>(~mask));
  entry.host_bits_cleared = entry.first != address;
  return entry;
}

EntryText parse_prefix4(Ipv4 address, std::string_view length_text) {
  if (length_text.find('.') != std::string_view::npos) {
    const auto mask = parse_ipv4(length_text);
    if (!mask) return kLengthNumber;
    const auto length = static_cast<uint32_t>(__builtin_popcount(*mask));
    if (*mask != prefix_mask<Ipv4>(length)) return kNetmask;
    return prefix(address, length);
  }
  const auto length = decimal(length_text, 32);
  if (!length) return kLengthNumber;
  if (*length > 32) return kLength4;
  return prefix(address, *length);
}

template <class Addr>
EntryText range(Addr first, Addr last) {
  if (last < first) return kReversed;
  return entry_of(first, last);
}

EntryText with_port(EntryText address, std::string_view port_text, LeadingZeros zeros) {
  const auto port = decimal(port_text, 65535);
  const bool is_port = port && *port >= 1 && *port <= 65535;
  if (!is_port || (zeros == LeadingZeros::refused && port_text[0] == '0')) return kPortNumber;
  if (auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&address)) v4->port = static_cast<uint16_t>(*port);
  if (auto* v6 = std::get_if<ParsedEntry<Ipv6>>(&address)) v6->port = static_cast<uint16_t>(*port);
  return address;
}

// [v6]:port
EntryText parse_bracketed(std::string_view text, LeadingZeros zeros) {
  const size_t close = text.find(']');
  if (close == std::string_view::npos) return kBrackets;
  const std::string_view inner = text.substr(1, close - 1);
  if (inner.find_first_of("/-") != std::string_view::npos) return kPortNeedsAddress;
  if (close + 1 == text.size() || text[close + 1] != ':') return kBrackets;
  const EntryText address = parse_address(inner);
  if (std::holds_alternative<EntryError>(address)) return address;
  if (std::holds_alternative<ParsedEntry<Ipv4>>(address)) return kBrackets;
  return with_port(address, text.substr(close + 2), zeros);
}

}  // namespace

EntryText parse_port(std::string_view address_text, std::string_view port_text, LeadingZeros zeros) {
  const EntryText address = parse_address(address_text);
  if (std::holds_alternative<EntryError>(address)) return address;
  return with_port(address, port_text, zeros);
}

EntryText parse_prefix(std::string_view address_text, std::string_view length_text, LeadingZeros zeros) {
  if (!address_text.empty() && address_text[0] == '[') return kBrackets;
  const EntryText address = parse_address(address_text);
  if (const auto* error = std::get_if<EntryError>(&address)) return *error;
  if (length_text.empty()) return kNoLength;
  if (length_text.find(':') != std::string_view::npos) return kPortNeedsAddress;
  if (zeros == LeadingZeros::refused && length_text.size() > 1 && length_text[0] == '0' && decimal(length_text, 128)) {
    return kLengthZero;
  }
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&address)) return parse_prefix4(v4->first, length_text);
  const auto length = decimal(length_text, 128);
  if (!length) return kLengthNumber;
  if (*length > 128) return kLength6;
  return prefix(std::get<ParsedEntry<Ipv6>>(address).first, *length);
}

EntryText parse_range(std::string_view first_text, std::string_view last_text, LeadingZeros octets) {
  const EntryText first = parse_address(first_text, octets);
  if (const auto* error = std::get_if<EntryError>(&first)) return *error;
  const EntryText last = parse_address(last_text, octets);
  if (const auto* error = std::get_if<EntryError>(&last))
    return error->reason == kNotAnAddress.reason ? kRangeEnd : *error;
  if (first.index() != last.index()) return kRangeFamilies;
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&first)) {
    return range(v4->first, std::get<ParsedEntry<Ipv4>>(last).first);
  }
  return range(std::get<ParsedEntry<Ipv6>>(first).first, std::get<ParsedEntry<Ipv6>>(last).first);
}

EntryText parse_entry(std::string_view text, LeadingZeros zeros) {
  if (text.empty()) return kNotAnAddress;
  if (text[0] == '[') return parse_bracketed(text, zeros);
  if (const size_t hyphen = text.find('-'); hyphen != std::string_view::npos) {
    return parse_range(trimmed(text.substr(0, hyphen)), trimmed(text.substr(hyphen + 1)));
  }
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    return parse_prefix(text.substr(0, slash), text.substr(slash + 1), zeros);
  }
  const size_t colon = text.find(':');
  const bool one_colon = colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos;
  return one_colon ? parse_port(text.substr(0, colon), text.substr(colon + 1), zeros) : parse_address(text);
}

}  // namespace weir::control
