#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "control/model/fields.h"
#include "filter/format/packet.h"

// A whole packet as people write it: pairs of a field and its value, in any order. `src` and `dst` are required; what
// is left out the packet does not have.
//   src 10.0.0.1 dst 203.0.113.9 proto tcp sport 40000 dport 443 tcp-flags syn
//   src 2001:db8::1 dst 2001:db8::9 proto icmpv6 icmp-type 128 icmp-code 0 length 84 dscp 46 fragment first
namespace weir::control {

// Of ports one may be left out: it is then none that an entry could name. Error: the reason, then the way out.
Result<weir_packet> parse_packet(std::string_view text);

// In the order above, without what the packet does not have.
std::string packet_text(const weir_packet& packet);

// The value of each of fields(), of a packet that came in; empty: it does not have it.
std::vector<std::string> field_values(const weir_packet& packet);
// Whether that is a number, whatever the value is.
bool is_number(const Field& field);

}  // namespace weir::control
