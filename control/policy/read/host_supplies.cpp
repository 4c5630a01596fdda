#include "control/policy/read/host_supplies.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace weir::control {
namespace {

void add(Ipv4 address, const std::string& what, Supplies& supplies) {
  const bool is_loopback = address >> 24 == 127, is_link_local = address >> 16 == 0xa9fe;
  if (address != 0 && !is_loopback && !is_link_local) supplies.v4.push_back({address, what});
}

void add(Ipv6 address, const std::string& what, Supplies& supplies) {
  const bool is_link_local = address >> 118 == 0xfe80 >> 6;
  if (address > 1 && !is_link_local) supplies.v6.push_back({address, what});
}

void add_interfaces(Supplies& supplies) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const std::string what = std::string("this host's address on ") + one->ifa_name;
    if (one->ifa_addr->sa_family == AF_INET) {
      add(ntohl(reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr), what, supplies);
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      add(ipv6_from_bytes(reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr.s6_addr), what, supplies);
    }
  }
  freeifaddrs(all);
}

std::vector<std::vector<std::string>> words_of_lines(std::string_view text) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::vector<std::string>& found = lines.emplace_back();
    for (std::string word; words >> word;) found.push_back(word);
  }
  return lines;
}

// Of whole words of hexadecimal digits, the first one the highest.
template <class Number>
bool read_hex(std::string_view text, Number& number) {
  number = 0;
  for (const char c : text) {
    uint8_t digit = 0;
    if (std::from_chars(&c, &c + 1, digit, 16).ec != std::errc()) return false;
    number = static_cast<Number>(number << 4 | digit);
  }
  return text.size() == 2 * sizeof(Number);
}

std::string text_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr const char* kGateway = "the default gateway";

}  // namespace

// proc(5): Iface Destination Gateway Flags RefCnt Use Metric Mask ...; addresses are words in network order, which the
// kernel prints as numbers of this machine.
void add_gateways_v4(std::string_view table, Supplies& supplies) {
  for (const auto& words : words_of_lines(table)) {
    Ipv4 destination = 0, gateway = 0, mask = 0;
    if (words.size() < 8 || !read_hex(words[1], destination) || !read_hex(words[2], gateway) ||
        !read_hex(words[7], mask))
      continue;
    if (destination == 0 && mask == 0) add(ntohl(gateway), kGateway, supplies);
  }
}

// Destination, its prefix length, source, its prefix length, next hop, ...: all in hexadecimal, in network order.
void add_gateways_v6(std::string_view table, Supplies& supplies) {
  for (const auto& words : words_of_lines(table)) {
    Ipv6 destination = 0, gateway = 0;
    if (words.size() < 5 || words[1] != "00" || !read_hex(words[0], destination) || !read_hex(words[4], gateway))
      continue;
    if (destination == 0) add(gateway, kGateway, supplies);
  }
}

// resolv.conf(5)
void add_resolvers(std::string_view text, Supplies& supplies) {
  for (const auto& words : words_of_lines(text)) {
    if (words.size() < 2 || words[0] != "nameserver") continue;
    const std::string address = words[1].substr(0, words[1].find('%'));
    if (const auto v4 = parse_ipv4(address)) add(*v4, "a resolver of this host", supplies);
    if (const auto v6 = parse_ipv6(address)) add(*v6, "a resolver of this host", supplies);
  }
}

Supplies host_supplies() {
  Supplies supplies;
  add_interfaces(supplies);
  add_gateways_v4(text_of("/proc/net/route"), supplies);
  add_gateways_v6(text_of("/proc/net/ipv6_route"), supplies);
  add_resolvers(text_of("/etc/resolv.conf"), supplies);
  order(supplies);
  return supplies;
}

}  // namespace weir::control
