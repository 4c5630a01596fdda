#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/ip.h"
#include "control/policy/model/list.h"

// This file finds what this host needs, so that no list cuts it off.
namespace weir::control {

// Addresses that this host, or weir itself, needs: a drop list that blocks one of them cuts the host off.

template <class Addr>
struct Supply {
  Addr address;
  std::string what;    // "the default gateway"
  bool is_cut = true;  // out of an entry of a feed that holds it; false: it is said only
  bool operator==(const Supply&) const = default;
};

// Ascending by address, each address once: order().
struct Supplies {
  std::vector<Supply<Ipv4>> v4;
  std::vector<Supply<Ipv6>> v6;

  bool empty() const { return v4.empty() && v6.empty(); }
  bool operator==(const Supplies&) const = default;
};

// Several reasons for one address: the first is told; the address is cut when one of them says so.
void order(Supplies& supplies);

// XXH3-128 of the addresses, and of which are cut; zeros: there are none.
std::array<uint64_t, 2> digest_of(const Supplies& supplies);

// Adds the address that a URL names literally, as in http://203.0.113.80/list.txt. A name is not looked up.
void add_server(const std::string& url, const std::string& what, Supplies& supplies);

// Of this machine, as it is now: the addresses of its interfaces, its default gateways, its resolvers. Loopback and
// link-local addresses are left out: they are reserved. A source that cannot be read adds nothing.
Supplies host_supplies();

// The texts of /proc/net/route, /proc/net/ipv6_route and /etc/resolv.conf.
void add_gateways_v4(std::string_view table, Supplies& supplies);
void add_gateways_v6(std::string_view table, Supplies& supplies);
void add_resolvers(std::string_view text, Supplies& supplies);

}  // namespace weir::control
