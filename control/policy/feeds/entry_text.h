#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "control/policy/model/entry.h"

namespace weir::control {

// Two facts about a text that its entry does not hold.
struct EntryNotes {
  bool host_bits_cleared = false;  // the prefix had host bits: a warning in a policy, fine in a feed
  bool is_any = false;             // /0: needs allow_any
};

// The parser gives an entry without a place, directions and an end: its caller knows them.
template <class Addr>
struct ParsedEntry : Entry<Addr>, EntryNotes {};

struct EntryError {
  const char* reason;  // e.g. "prefix length 33 is larger than 32" is built by the caller from reason + text
  const char* hint;
};

using EntryText = std::variant<ParsedEntry<Ipv4>, ParsedEntry<Ipv6>, EntryError>;

// Leading zeros of a port or a prefix length. A policy may not have them; feeds do. In an octet they are refused,
// because some programs read those as octal; formats that write every octet with three digits have them in
// ranges.
enum class LeadingZeros : uint8_t { refused, decimal };

// One entry exactly (no blanks around it, no comment): v4, v6, prefix, v4 netmask, range of either family (blanks
// around the hyphen allowed), a.b.c.d:port, [v6]:port. Policies and feeds share this grammar (docs/use/policy.md).
// Errors: leading zeros in an octet, port 0 or above 65535, reversed range, IPv4-mapped IPv6, zone id, host mask, ...
EntryText parse_entry(std::string_view text, LeadingZeros zeros = LeadingZeros::refused);

// The same of a text in parts: an address and its port; an address and its prefix length or netmask; both ends of a
// range, without blanks around them. Where parts make an entry, the text that they stand for makes the same one:
// address:port or [v6]:port, address/length, first-last. If parts make none, parse that text for the reason.
EntryText parse_port(std::string_view address, std::string_view port, LeadingZeros zeros);
EntryText parse_prefix(std::string_view address, std::string_view length, LeadingZeros zeros);
EntryText parse_range(std::string_view first, std::string_view last, LeadingZeros octets = LeadingZeros::refused);

}  // namespace weir::control
