#include "control/base/http/public_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>

namespace weir::control {
namespace {

struct Net4 {
  uint32_t address;
  unsigned bits;
};
constexpr Net4 kNotPublic4[] = {
    {0x00000000, 8},   // this network, RFC 1122
    {0x0a000000, 8},   // private, RFC 1918
    {0x64400000, 10},  // of carriers, RFC 6598
    {0x7f000000, 8},   // loopback
    {0xa9fe0000, 16},  // link-local, RFC 3927
    {0xac100000, 12},  // private
    {0xc0a80000, 16},  // private
    {0xe0000000, 3},   // multicast, and what has no use: RFC 1112
};

bool is_public4(uint32_t address) {
  return std::none_of(std::begin(kNotPublic4), std::end(kNotPublic4),
                      [&](const Net4& net) { return ((address ^ net.address) >> (32 - net.bits)) == 0; });
}

using Bytes = std::array<uint8_t, 16>;

uint32_t at(const Bytes& bytes, size_t from) {
  uint32_t word = 0;
  memcpy(&word, bytes.data() + from, sizeof word);
  return ntohl(word);
}

bool is_public6(const Bytes& bytes) {
  const uint32_t first = at(bytes, 0), second = at(bytes, 4), third = at(bytes, 8);
  if (first == 0 && second == 0) {
    if (third == 0xffff) return is_public4(at(bytes, 12));  // mapped, RFC 4291
    if (third == 0) return false;                           // unspecified, loopback, and what was compatible once
  }
  if (first == 0x0064ff9b && second == 0 && third == 0) return is_public4(at(bytes, 12));  // NAT64, RFC 6052
  if (first >> 16 == 0x2002) return is_public4(first << 16 | second >> 16);                // 6to4, RFC 3056
  return (first >> 25) != (0xfc000000u >> 25) &&                                           // private, RFC 4193
         (first >> 22) != (0xfe800000u >> 22) && (first >> 22) != (0xfec00000u >> 22) &&   // link, site
         (first >> 24) != 0xff;                                                            // multicast
}

}  // namespace

bool is_public(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in in = {};
    memcpy(&in, address, sizeof in);
    return is_public4(ntohl(in.sin_addr.s_addr));
  }
  if (address->sa_family != AF_INET6) return false;
  sockaddr_in6 in = {};
  memcpy(&in, address, sizeof in);
  Bytes bytes;
  memcpy(bytes.data(), &in.sin6_addr, bytes.size());
  return is_public6(bytes);
}

bool is_public_host(std::string host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  host = host.substr(0, host.find('%'));  // a zone
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  // As the C library reads it, which libcurl asks: 127.1 and 0x7f000001, too.
  if (inet_aton(host.c_str(), &four.sin_addr) != 0) return is_public(reinterpret_cast<const sockaddr*>(&four));
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  if (inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) return is_public(reinterpret_cast<const sockaddr*>(&six));
  std::transform(host.begin(), host.end(), host.begin(), [](unsigned char c) { return std::tolower(c); });
  while (host.ends_with('.')) host.pop_back();
  return !host.empty() && host != "localhost" && !host.ends_with(".localhost");
}

}  // namespace weir::control
