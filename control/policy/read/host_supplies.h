#pragma once

#include <string_view>

#include "control/policy/model/supplies.h"

namespace weir::control {

// Of this machine, as it is now: the addresses of its interfaces, its default gateways, its resolvers. Loopback and
// link-local addresses are left out: they are reserved. A source that cannot be read adds nothing.
Supplies host_supplies();

// The texts of /proc/net/route, /proc/net/ipv6_route and /etc/resolv.conf.
void add_gateways_v4(std::string_view table, Supplies& supplies);
void add_gateways_v6(std::string_view table, Supplies& supplies);
void add_resolvers(std::string_view text, Supplies& supplies);

}  // namespace weir::control
