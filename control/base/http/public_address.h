#pragma once

#include <sys/socket.h>

#include <string>

// Which addresses a redirect may lead to: public ones.
namespace weir::control {

// False: it is this machine's, its link's or a private network's (loopback, link-local, RFC 1918, RFC 6598, RFC 4193,
// multicast, unspecified), also where an IPv6 address holds such an IPv4 address (mapped, 6to4, NAT64).
bool is_public(const sockaddr* address);
// The host as an url writes it: an address, in brackets or not, or a name. A name may be anybody's, but for
// `localhost` and what ends in `.localhost` (RFC 6761).
bool is_public_host(std::string host);

}  // namespace weir::control
