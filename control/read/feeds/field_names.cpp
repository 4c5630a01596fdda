#include "control/read/feeds/field_names.h"

#include <algorithm>
#include <array>
#include <string>

namespace weir::control::feeds {
namespace {

// By rank. Ends of ranges belong together by their place: kFirsts[i] with kLasts[i].
constexpr std::array<std::string_view, 33> kAddresses = {
    "ip",          "ipaddress",   "ipaddr",        "address",  "addr",       "dstip",      "destip",  "destinationip",
    "srcip",       "sourceip",    "addressprefix", "ipprefix", "ipv4prefix", "ipv6prefix", "network", "subnet",
    "net",         "prefix",      "cidr",          "ipcidr",   "iprange",    "range",      "ipv4",    "ipv6",
    "ipv4address", "ipv6address", "indicator",     "iocvalue", "ioc",        "value",      "host",    "ipornetwork",
    "cidrblock"};
constexpr std::array<std::string_view, 10> kFirsts = {"start", "startip", "ipstart",    "first",        "firstip",
                                                      "from",  "ipfrom",  "rangestart", "startaddress", "begin"};
constexpr std::array<std::string_view, 10> kLasts = {"end", "endip", "ipend",    "last",       "lastip",
                                                     "to",  "ipto",  "rangeend", "endaddress", "end"};
constexpr std::array<std::string_view, 6> kPorts = {"port",  "dstport", "destport", "destinationport",
                                                    "dport", "ipport"};
constexpr std::array<std::string_view, 10> kLengths = {"prefixlength", "prefixlen", "prefixbits", "masklength",
                                                       "masklen",      "maskbits",  "netmask",    "mask",
                                                       "cidrlength",   "prefixsize"};
constexpr std::array<std::string_view, 14> kLists = {"list",  "ips",       "addresses", "networks", "prefixes",
                                                     "cidrs", "ranges",    "hosts",     "entries",  "data",
                                                     "items", "blocklist", "ipv4cidrs", "ipv6cidrs"};

std::string plain_name(std::string_view name) {
  constexpr size_t kLongest = 32;
  std::string plain;
  for (const char c : name.substr(0, kLongest)) {
    if (c >= 'A' && c <= 'Z') plain += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain += c;
  }
  return plain;
}

template <size_t N>
std::optional<unsigned> rank_in(const std::array<std::string_view, N>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<unsigned>(found - names.begin());
}

}  // namespace

std::optional<NamedPart> part_named(std::string_view name) {
  const std::string plain = plain_name(name);
  if (const auto rank = rank_in(kAddresses, plain)) return NamedPart{Part::address, *rank};
  if (const auto rank = rank_in(kFirsts, plain)) {
    return NamedPart{Part::address, static_cast<unsigned>(kAddresses.size()) + *rank, true};
  }
  if (const auto rank = rank_in(kLasts, plain)) return NamedPart{Part::last, *rank};
  if (const auto rank = rank_in(kPorts, plain)) return NamedPart{Part::port, *rank};
  if (const auto rank = rank_in(kLengths, plain)) return NamedPart{Part::length, *rank};
  return std::nullopt;
}

bool is_list_name(std::string_view name) {
  const std::string plain = plain_name(name);
  const auto part = part_named(name);
  return rank_in(kLists, plain) || (part && part->part == Part::address);
}

}  // namespace weir::control::feeds
