#include "control/policy/feeds/field_names.h"

#include <algorithm>
#include <string>

#include "common/ip.h"
#include "control/policy/feeds/take.h"
#include "control/policy/feeds/words.h"

namespace weir::control::feeds {

namespace field_names {

// By rank. Of an address whose side nobody names.
constexpr std::string_view kAddresses[] = {"ip",
                                           "ipaddress",
                                           "ipaddr",
                                           "address",
                                           "addr",
                                           "ipstr",
                                           "addressprefix",
                                           "ipprefix",
                                           "ipv4prefix",
                                           "ipv6prefix",
                                           "network",
                                           "subnet",
                                           "net",
                                           "prefix",
                                           "cidr",
                                           "ipcidr",
                                           "iprange",
                                           "range",
                                           "ipv4",
                                           "ipv6",
                                           "ipv4address",
                                           "ipv6address",
                                           "indicator",
                                           "indicatorvalue",
                                           "iocvalue",
                                           "ioc",
                                           "value",
                                           "host",
                                           "ipornetwork",
                                           "cidrblock",
                                           "netblock",
                                           "ipnetwork",
                                           "ipsubnet",
                                           "ips",
                                           "ip4",
                                           "ip6",
                                           "ipv4addr",
                                           "ipv6addr",
                                           "observable",
                                           "entity",
                                           "networkaddress",
                                           "ipaddressorcidr",
                                           "attackerip",
                                           "attacker",
                                           "attackeraddress",
                                           "attackip",
                                           "maliciousip",
                                           "badip",
                                           "bannedip",
                                           "blockedip",
                                           "blockip",
                                           "listedip",
                                           "offenderip",
                                           "offender",
                                           "threatip",
                                           "scannerip",
                                           "botip",
                                           "c2ip",
                                           "c2",
                                           "remoteip",
                                           "remoteaddr",
                                           "remoteaddress",

                                           "hostip",
                                           "hostaddress",
                                           "abuseip",
                                           "spammerip",
                                           "adresse",
                                           "adr",
                                           "ipadresse",
                                           "adresseip",
                                           "direccion",
                                           "direccionip",
                                           "indirizzo",
                                           "indirizzoip",
                                           "endereco",
                                           "enderecoip",
                                           "adres",
                                           "adresip",
                                           "ipadres",
                                           "netz",
                                           "netzwerk",
                                           "reseau",
                                           "red",
                                           "rete",
                                           "rede",
                                           "angreifer",
                                           "angreiferip",
                                           "attaquant",
                                           "atacante",
                                           "siec"};
constexpr std::string_view kNetworks[] = {"network", "subnet",   "net",      "netblock", "networkaddress", "ipnetwork",
                                          "netz",    "netzwerk", "reseau",   "red",      "rete",           "rede",
                                          "range",   "iprange",  "ipsubnet", "siec"};
constexpr std::string_view kSources[] = {
    "srcip",           "sourceip", "src",       "source",     "srcaddr",    "sourceaddress",
    "srcaddress",      "sa",       "srcipaddr", "ipsrc",      "sourceaddr", "srcipaddress",
    "sourceipaddress", "ipsource", "saddr",     "quelle",     "quellip",    "quelladresse",
    "origen",          "iporigen", "srchost",   "sourcehost", "srcipv4",    "srcipv6"};
constexpr std::string_view kDestinations[] = {"dstip",
                                              "destip",
                                              "destinationip",
                                              "dst",
                                              "dest",
                                              "destination",
                                              "dstaddr",
                                              "dstaddress",
                                              "destaddress",
                                              "destinationaddress",
                                              "da",
                                              "daddr",
                                              "ipdst",
                                              "ipdest",
                                              "dstipaddr",
                                              "destaddr",
                                              "zielip",
                                              "ziel",
                                              "zieladresse",
                                              "destino",
                                              "ipdestino",
                                              "dsthost",
                                              "desthost",
                                              "destinationhost",
                                              "destinationipaddress",
                                              "dstipaddress",
                                              "dstipv4",
                                              "dstipv6"};
// Beginnings and ends of ranges.
constexpr std::string_view kFirsts[] = {
    "start",        "startip",      "ipstart",        "first",        "firstip",      "from",
    "ipfrom",       "rangestart",   "startaddress",   "begin",        "beginip",      "low",
    "lowip",        "iplow",        "lower",          "firstaddress", "ipfirst",      "ipbegin",
    "fromip",       "rangebegin",   "rangefrom",      "startrange",   "networkstart", "networkstartip",
    "von",          "vonip",        "ipvon",          "inicio",       "debut",        "inizio",
    "beginaddress", "addressstart", "startipaddress", "minip",        "ipmin",        "min"};
constexpr std::string_view kLasts[] = {"end",
                                       "endip",
                                       "ipend",
                                       "last",
                                       "lastip",
                                       "to",
                                       "ipto",
                                       "rangeend",
                                       "endaddress",
                                       "high",
                                       "highip",
                                       "iphigh",
                                       "upper",
                                       "lastaddress",
                                       "iplast",
                                       "toip",
                                       "rangeto",
                                       "rangelast",
                                       "endrange",
                                       "networkend",
                                       "networklastip",
                                       "broadcast",
                                       "broadcastaddress",
                                       "broadcastip",
                                       "until",
                                       "stop",
                                       "stopip",
                                       "bis",
                                       "bisip",
                                       "ipbis",
                                       "fin",
                                       "fine",
                                       "addressend",
                                       "endipaddress",
                                       "maxip",
                                       "ipmax",
                                       "networkendip",
                                       "finish",
                                       "ipstop",
                                       "addressto",
                                       "rangestop",
                                       "max"};
constexpr std::string_view kPorts[] = {"port", "ipport", "portnumber", "puerto", "porta", "porty"};
constexpr std::string_view kSourcePorts[] = {"srcport", "sourceport", "sport", "sp", "portsrc", "quellport"};
constexpr std::string_view kDestinationPorts[] = {"dstport", "destport", "destinationport", "dport",
                                                  "dp",      "portdst",  "zielport",        "targetport"};
constexpr std::string_view kLengths[] = {"prefixlength",  "prefixlen",     "prefixbits", "masklength",  "masklen",
                                         "maskbits",      "netmask",       "mask",       "cidrlength",  "cidrlen",
                                         "prefixsize",    "subnetmask",    "masque",     "mascara",     "maschera",
                                         "netzmaske",     "ipmask",        "cidrmask",   "networkmask", "cidrprefix",
                                         "networkprefix", "networklength", "cidrbits",   "maskevalue",  "prefixlaenge"};
constexpr std::string_view kVagueLengths[] = {"length", "len", "bits", "plen", "slash", "laenge", "longueur"};
constexpr std::string_view kMaybeLengths[] = {"cidr", "prefix", "ipprefix", "subnet", "network"};
// Whole names, and words that names of other numbers hold.
constexpr std::string_view kNoLengths[] = {"as", "id", "n", "no", "nr", "ttl", "lists", "sources", "votes", "points"};
constexpr std::string_view kNoLengthWords[] = {"score",  "count", "port",   "asn",    "num",    "hit",  "seen",
                                               "date",   "time",  "report", "attack", "level",  "rank", "risk",
                                               "confid", "sever", "weight", "day",    "age",    "type", "categ",
                                               "status", "total", "freq",   "rating", "threat", "year"};
constexpr std::string_view kAddressCounts[] = {"size",
                                               "hosts",
                                               "hostcount",
                                               "numhosts",
                                               "nhosts",
                                               "numips",
                                               "nips",
                                               "ipcount",
                                               "ipscount",
                                               "addresses",
                                               "numaddresses",
                                               "addresscount",
                                               "numberofaddresses",
                                               "totalips",
                                               "iptotal",
                                               "count",
                                               "num",
                                               "total",
                                               "quantity",
                                               "amount",
                                               "anzahl",
                                               "nombre",
                                               "cantidad",
                                               "numero",
                                               "netsize",
                                               "rangesize",
                                               "networksize",
                                               "hostsnumber",
                                               "subnetsize",
                                               "blocksize",
                                               "naddrs",
                                               "addrs"};
// These count addresses beside any address; others only beside the beginning of a network.
constexpr std::string_view kSureAddressCounts[] = {
    "size",        "numips",     "numhosts",          "numaddresses", "addresscount", "netsize",  "rangesize",
    "networksize", "subnetsize", "numberofaddresses", "hosts",        "addresses",    "hostcount"};
constexpr std::string_view kAttackWords[] = {
    "attack", "attempt", "event",   "service", "honeypot", "incident", "signature", "brute",  "probe",   "login",
    "abuse",  "report",  "angriff", "hits",    "reason",   "scan",     "victim",    "target", "usernam", "password"};
constexpr std::string_view kErrors[] = {
    "error",  "errors",  "errormessage", "errorcode", "errmsg",  "exception",        "fault",        "fehler",
    "erreur", "message", "msg",          "detail",    "details", "errordescription", "errordetails", "problem"};
// Whose addresses they are, when they are not those of the list.
constexpr std::string_view kBystanders[] = {
    "report",   "sensor",    "observ",    "victim",    "gateway",  "nexthop",  "resolver", "nameserver",
    "honeypot", "collector", "detector",  "monitor",   "target",   "probe",    "proxy",    "nat",
    "firewall", "device",    "interface", "local",     "internal", "own",      "our",      "router",
    "via",      "seenby",    "seenfrom",  "source of", "submit",   "melder",   "opfer",    "victime",
    "victima",  "server",    "exit",      "origin",    "peer",     "provider", "feed"};
constexpr std::string_view kLists[] = {
    "list",         "ips",       "addresses",   "networks",      "prefixes",      "cidrs",
    "ranges",       "hosts",     "entries",     "data",          "items",         "blocklist",
    "ipv4cidrs",    "ipv6cidrs", "ipaddresses", "ipv4addresses", "ipv6addresses", "ipv4prefixes",
    "ipv6prefixes", "iplist",    "addresslist", "ipv4",          "ipv6",          "v4",
    "v6",           "ip4",       "ip6",         "blacklist",     "denylist",      "droplist",
    "indicators",   "iocs",      "blocked",     "banned",        "results",       "records",
    "attackers",    "offenders", "badips",      "blockedips",    "bannedips",     "ipranges"};

constexpr size_t kLongest = 48;  // of a name

template <size_t N>
std::optional<unsigned> rank_in(const std::string_view (&names)[N], std::string_view name) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<unsigned>(found - std::begin(names));
}

std::string letters_of(std::string_view name) {
  return words::letters_of(name, kLongest);
}

}  // namespace field_names

std::optional<FieldName> field_named(std::string_view text) {
  using namespace field_names;
  const std::string name = letters_of(text);
  constexpr unsigned kBehind = 200;  // names of a later table
  if (const auto rank = rank_in(kAddresses, name)) {
    const bool is_network = rank_in(kNetworks, name).has_value();
    return FieldName{.part = Part::address, .rank = *rank, .is_network = is_network};
  }
  if (const auto rank = rank_in(kSources, name)) {
    return FieldName{.part = Part::address, .rank = kBehind + *rank, .side = FieldName::source};
  }
  if (const auto rank = rank_in(kDestinations, name)) {
    return FieldName{.part = Part::address, .rank = 2 * kBehind + *rank, .side = FieldName::destination};
  }
  if (const auto rank = rank_in(kFirsts, name)) {
    return FieldName{.part = Part::address, .rank = 3 * kBehind + *rank, .begins_range = true, .is_network = true};
  }
  if (const auto rank = rank_in(kLasts, name)) return FieldName{.part = Part::last, .rank = *rank};
  if (const auto rank = rank_in(kPorts, name)) return FieldName{.part = Part::port, .rank = *rank};
  if (const auto rank = rank_in(kDestinationPorts, name)) {
    return FieldName{.part = Part::port, .rank = kBehind + *rank, .side = FieldName::destination};
  }
  if (const auto rank = rank_in(kSourcePorts, name)) {
    return FieldName{.part = Part::port, .rank = 2 * kBehind + *rank, .side = FieldName::source};
  }
  if (const auto rank = rank_in(kLengths, name)) return FieldName{.part = Part::length, .rank = *rank};
  if (const auto rank = rank_in(kVagueLengths, name)) {
    return FieldName{.part = Part::length, .rank = kBehind + *rank, .is_vague = true};
  }
  return std::nullopt;
}

bool names_bystander(std::string_view name) {
  using namespace field_names;
  const std::string letters = letters_of(name);
  return !field_named(name) && words::holds_one_of(letters, kBystanders);
}

bool may_name_length(std::string_view name) {
  using namespace field_names;
  return rank_in(kMaybeLengths, letters_of(name)).has_value();
}

bool rules_out_length(std::string_view name) {
  using namespace field_names;
  const std::string letters = letters_of(name);
  return rank_in(kNoLengths, letters) || words::holds_one_of(letters, kNoLengthWords);
}

bool counts_addresses(std::string_view name, bool is_network) {
  using namespace field_names;
  const std::string letters = letters_of(name);
  return is_network ? rank_in(kAddressCounts, letters).has_value() : rank_in(kSureAddressCounts, letters).has_value();
}

bool tells_of_attack(std::string_view name) {
  using namespace field_names;
  return words::holds_one_of(letters_of(name), kAttackWords);
}

bool tells_of_server(std::string_view text) {
  using namespace field_names;
  constexpr std::string_view kServers[] = {"c2",      "botnet", "proxy", "proxies", "socks", "commandandcontrol",
                                           "malware", "torexit"};
  return words::holds_one_of(letters_of(text), kServers);
}

bool names_error(std::string_view name) {
  using namespace field_names;
  return rank_in(kErrors, letters_of(name)).has_value();
}

bool is_list_name(std::string_view name) {
  using namespace field_names;
  const auto named = field_named(name);
  return rank_in(kLists, letters_of(name)) || (named && named->part == Part::address);
}

namespace {

struct Weighed {
  bool fits = false;        // no bit of the address lies behind the length
  bool is_network = false;  // and it ends in so many zeros that it is hardly a host
};

template <class Addr>
Weighed weigh(Addr address, unsigned length, Addr last_bits) {
  if (length > kAddrBits<Addr> || (address & static_cast<Addr>(~prefix_mask<Addr>(length))) != 0) return {};
  return {true, length < kAddrBits<Addr> && (address & last_bits) == 0};
}

}  // namespace

void LengthDoubt::look(uint32_t line, std::string_view address, std::string_view beside) {
  constexpr unsigned kNone = 1000;  // whatever has more digits than a prefix length
  std::string_view digits = beside;
  if (digits.starts_with('/')) digits.remove_prefix(1);
  if (!is_number(digits)) return;
  const unsigned length = is_length(digits) ? static_cast<unsigned>(std::stoul(std::string(digits))) : kNone;
  Weighed weighed;
  if (const auto v4 = parse_ipv4(address)) {
    weighed = weigh<Ipv4>(*v4, length, 0xff);
  } else if (const auto v6 = parse_ipv6(address)) {
    weighed = weigh<Ipv6>(*v6, length, ~uint64_t{0});
  } else {
    return;  // a prefix, or with a port
  }
  (weighed.fits ? fits_ : misfits_)++;
  if (!weighed.is_network || line_ != 0) return;
  line_ = line;
  address_ = address;
  number_ = beside;
}

}  // namespace weir::control::feeds
