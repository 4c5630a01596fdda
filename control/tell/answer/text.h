#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/policy/model/fields.h"
#include "filter/format/packet.h"

// People read and write numbers, times and packets as these texts.
namespace weir::control {

// ------------------------------------------------------------------------------------------------ numbers and times

std::string count(uint64_t n);                     // 1,234,567
std::string bytes(uint64_t n);                     // 512 B, 12.3 MiB
std::string milliseconds(double ms);               // 0.42 ms, 812 ms, 3.1 s
std::string percent(double fraction);              // 0.42 %
std::string duration(uint64_t seconds);            // 12 s, 3 min, 2 h, 5 days
std::string age(int64_t unix_s);                   // 12 s ago, 3 min ago, 2 h ago, 5 days ago; never
std::string plural(uint64_t n, const char* noun);  // 1 list, 12 lists
std::string plural(uint64_t n, const char* singular, const char* several);  // 1 entry, 3,401 entries

// Three digits and a unit of thousands: 98, 12.3 k, 1.23 M, 9.81 G.
std::string scaled(double per_second);

// ---------------------------------------------------------------------------------------------------------- packets

// A whole packet as people write it: pairs of a field and its value, in any order. `src` and `dst` are required. What
// is left out, the packet does not have, and no entry that asks for it matches; but `dscp` is then 0, `fragment` none.
//   src 10.0.0.1 dst 203.0.113.9 proto tcp sport 40000 dport 443 tcp-flags syn
//   src 2001:db8::1 dst 2001:db8::9 proto icmpv6 icmp-type 128 icmp-code 0 length 84 dscp 46 fragment first

// A port or the protocol that is left out: control/policy/model/packet.h. Error: the reason, then the way out; also of
// a packet that cannot exist.
Result<weir_packet> parse_packet(std::string_view text);

// In the order above, without what the packet does not have. Reads back as the same packet; that a header was cut off
// or said no length (WEIR_INCOMPLETE, WEIR_OPEN_END) is no field.
std::string packet_text(const weir_packet& packet);

// The value of each of fields(), of a packet that came in; empty: it does not have it.
std::vector<std::string> field_values(const weir_packet& packet);
// Whether that is a number, whatever the value is.
bool is_number(const Field& field);

}  // namespace weir::control
