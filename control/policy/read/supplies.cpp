#include "control/policy/read/supplies.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "common/digest.h"

namespace weir::control {

namespace {

template <class Addr>
void order(std::vector<Supply<Addr>>& supplies) {
  std::stable_sort(supplies.begin(), supplies.end(),
                   [](const auto& a, const auto& b) { return a.address < b.address; });
  size_t n = 0;
  for (size_t i = 0; i < supplies.size(); i++) {
    if (n != 0 && supplies[n - 1].address == supplies[i].address) {
      supplies[n - 1].is_cut |= supplies[i].is_cut;
    } else if (n++ != i) {
      supplies[n - 1] = std::move(supplies[i]);
    }
  }
  supplies.resize(n);
}

std::string host_of(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  std::string host = url.substr(begin, url.find_first_of("/?#", begin) - begin);
  if (const size_t at = host.rfind('@'); at != std::string::npos) host.erase(0, at + 1);
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

void order(Supplies& supplies) {
  order(supplies.v4);
  order(supplies.v6);
}

std::array<uint64_t, 2> digest_of(const Supplies& supplies) {
  if (supplies.empty()) return {};
  std::string bytes;
  const auto add = [&](const auto& some) {
    for (const auto& supply : some) bytes += to_string(supply.address) + (supply.is_cut ? "-" : "+");
  };
  add(supplies.v4);
  add(supplies.v6);
  return weir::digest_of(std::as_bytes(std::span(bytes)));
}

void add_server(const std::string& url, const std::string& what, Supplies& supplies) {
  const std::string host = host_of(url);
  if (const auto v4 = parse_ipv4(host)) supplies.v4.push_back({*v4, what});
  if (const auto v6 = parse_ipv6(host)) supplies.v6.push_back({*v6, what});
}

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
