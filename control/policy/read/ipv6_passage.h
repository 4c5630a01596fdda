#pragma once

#include <string>

#include "control/policy/model/list.h"

namespace weir::control {

struct Ipv6Passage {
  bool has_neighbour_discovery = false;
  std::string list;  // the first pass list with an IPv6 address; empty: there is none
};

// What pass lists let through of IPv6, where all else is dropped. Neighbour discovery (RFC 4861) needs fe80::/10, as
// source or destination, and ff02::/16 as destination; or an entry for ICMPv6.
Ipv6Passage ipv6_passage(const Book& lists);

}  // namespace weir::control
