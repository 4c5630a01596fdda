#pragma once

#include <string>

#include "common/ip.h"

namespace weir::control {

// An entry's canonical text: 203.0.113.7, 203.0.113.0/24, 203.0.113.10-203.0.113.99, 203.0.113.7:443,
// [2001:db8::7]:443. port 0 = any.
std::string range_text(Ipv4 first, Ipv4 last, uint16_t port);
std::string range_text(Ipv6 first, Ipv6 last, uint16_t port);

}  // namespace weir::control
