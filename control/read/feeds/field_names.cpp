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
constexpr std::array<std::string_view, 12> kLengths = {"prefixlength", "prefixlen", "prefixbits", "masklength",
                                                       "masklen",      "maskbits",  "netmask",    "mask",
                                                       "cidrlength",   "cidrlen",   "prefixsize", "subnetmask"};
constexpr std::array<std::string_view, 4> kVagueLengths = {"length", "len", "bits", "plen"};
constexpr std::array<std::string_view, 4> kMaybeLengths = {"cidr", "prefix", "ipprefix", "subnet"};
// Whole names, and what is in names of columns of other numbers.
constexpr std::array<std::string_view, 6> kNoLengths = {"as", "id", "n", "no", "nr", "ttl"};
constexpr std::array<std::string_view, 26> kNoLengthWords = {
    "score",  "count",  "port",  "asn",    "num",   "hit",    "seen",   "date",   "time",
    "report", "attack", "level", "rank",   "risk",  "confid", "sever",  "weight", "day",
    "age",    "type",   "categ", "status", "total", "freq",   "rating", "threat"};
constexpr std::array<std::string_view, 19> kLists = {
    "list",        "ips",           "addresses",     "networks",     "prefixes",    "cidrs",     "ranges",
    "hosts",       "entries",       "data",          "items",        "blocklist",   "ipv4cidrs", "ipv6cidrs",
    "ipaddresses", "ipv4addresses", "ipv6addresses", "ipv4prefixes", "ipv6prefixes"};

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
  if (const auto rank = rank_in(kVagueLengths, plain)) {
    return NamedPart{Part::length, static_cast<unsigned>(kLengths.size()) + *rank, false, true};
  }
  return std::nullopt;
}

bool may_name_length(std::string_view name) {
  return rank_in(kMaybeLengths, plain_name(name)).has_value();
}

bool rules_out_length(std::string_view name) {
  const std::string plain = plain_name(name);
  return rank_in(kNoLengths, plain) || std::any_of(kNoLengthWords.begin(), kNoLengthWords.end(),
                                                   [&](auto word) { return plain.find(word) != std::string::npos; });
}

bool is_list_name(std::string_view name) {
  const std::string plain = plain_name(name);
  const auto part = part_named(name);
  return rank_in(kLists, plain) || (part && part->part == Part::address);
}

}  // namespace weir::control::feeds
