#include <array>
#include <optional>

#include "control/policy/feeds/take.h"

// Routes: `ip route add PREFIX ...` (replace, append, ...) a line, or what `ip route show` prints; also Cisco's and
// Windows' commands, which have a netmask behind an address.
namespace weir::control::feeds {
namespace ip_route {

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::string_view, 5> kVerbs = {"add", "replace", "change", "append", "prepend"};
constexpr std::array<std::string_view, 3> kOpposites = {"del", "delete", "flush"};
// What may stand in front of a prefix: the types of null routes, what is never meant to keep packets away (`throw` goes
// on to the next table), and what says nothing.
constexpr std::array<std::string_view, 3> kNull = {"blackhole", "unreachable", "prohibit"};
constexpr std::array<std::string_view, 6> kHarmless = {"local",   "broadcast", "multicast",
                                                       "anycast", "throw",     "nexthop"};
constexpr std::array<std::string_view, 2> kOthers = {"unicast", "to"};
// Who made a route, where it was not a person.
constexpr std::array<std::string_view, 4> kAutomatic = {"kernel", "dhcp", "ra", "redirect"};

struct Route {
  std::string_view type, prefix;
  std::string_view rest;     // behind the prefix
  bool is_command = false;   // `route` stood in front
  bool is_opposite = false;  // it takes a route out
  bool is_net = false;       // `-net` stood in front: the prefix is no host
};

// The first word that is no option like -6.
std::string_view next_argument(std::string_view& line) {
  std::string_view word = next_word(line);
  while (word.size() > 1 && word[0] == '-') word = next_word(line);
  return word;
}

Route route_in(std::string_view line) {
  Route route;
  std::string_view word = next_word(line);
  if (word == "sudo") word = next_word(line);
  if (word == "ip" || word.ends_with("/ip")) word = next_argument(line);
  if (word == "route" || word == "r" || word == "ro") {
    route.is_command = true;
    word = next_argument(line);
    route.is_opposite = is_one_of(lower(word), kOpposites);
    if (route.is_opposite || is_one_of(lower(word), kVerbs)) word = next_word(line);
    route.is_net = word == "-net";
    if (route.is_net || word == "-host") word = next_word(line);
  }
  if (is_one_of(word, kNull) || is_one_of(word, kHarmless) || is_one_of(word, kOthers)) {
    route.type = word;
    word = next_word(line);
  }
  route.prefix = word;
  route.rest = line;
  return route;
}

bool is_automatic(const Route& route) {
  std::string_view rest = route.rest;
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    if (word == "proto") return is_one_of(next_word(rest), kAutomatic);
  }
  return false;
}

// `203.0.113.0 255.255.255.0`, `203.0.113.0 mask 255.255.255.0`: what stands in the place of the netmask.
std::optional<std::string_view> netmask_of(const Route& route) {
  constexpr std::array<std::string_view, 3> kNames = {"mask", "netmask", "-netmask"};
  if (route.prefix.find('/') != std::string_view::npos) return std::nullopt;
  std::string_view rest = route.rest;
  const std::string_view word = next_word(rest);
  if (is_one_of(lower(word), kNames)) return next_word(rest);
  return parse_ipv4(word) ? std::optional(word) : std::nullopt;
}

// Whether it throws packets away: by its type, or by where it leads. One that leads nowhere is meant so.
bool is_null(const Route& route) {
  constexpr std::array<std::string_view, 4> kLeads = {"via", "dev", "gw", "nexthop"};
  constexpr std::array<std::string_view, 9> kNowhere = {"lo",     "lo0",    "null",  "null0",    "discard",
                                                        "reject", "dummy0", "dummy", "blackhole"};
  if (is_one_of(route.type, kNull)) return true;
  if (!route.type.empty() && route.type != "to" && route.type != "unicast") return false;
  std::string_view rest = route.rest;
  bool leads = false;
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    const std::string small = lower(word);
    if (is_one_of(small, kNowhere) || is_one_of(word, kNull) || word.starts_with("127.") || word == "::1") return true;
    leads |= is_one_of(small, kLeads);
  }
  if (leads) return false;
  // Without a word for it, a gateway is the address behind the netmask: of Windows and Cisco.
  rest = route.rest;
  std::string_view word = next_word(rest);
  if (!netmask_of(route)) return !parse_ipv4(word) && !parse_ipv6(word);
  if (!parse_ipv4(word)) word = next_word(rest);
  word = next_word(rest);
  return word == "0.0.0.0" || (!parse_ipv4(word) && (word.empty() || word[0] == '-'));
}

const char* take_prefix_of(const Route& route, At at, const Options& options, ListDraft& list) {
  if (route.prefix.empty() || route.prefix.find_first_of("-[") != std::string_view::npos) return "no route";
  const EntryText parsed = parse_entry(route.prefix, LeadingZeros::decimal);
  const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed);
  const auto* v6 = std::get_if<ParsedEntry<Ipv6>>(&parsed);
  if ((v4 != nullptr && v4->port != 0) || (v6 != nullptr && v6->port != 0)) return "a route has no port";
  if (const auto netmask = netmask_of(route)) return take_prefix(route.prefix, *netmask, at, options, list);
  if (route.is_net && route.prefix.find('/') == std::string_view::npos) return "the network has no netmask";
  return take(route.prefix, at, options, list);
}

Outcome read_line(std::string_view line, uint32_t number, const Options& options, ListDraft& list) {
  if (line[0] == '#') return {};
  const Route route = route_in(line);
  if (route.is_opposite) return Outcome::skip("a route that is taken out");
  if (is_one_of(route.type, kHarmless)) return Outcome::skip("a route that keeps nothing away");
  const bool is_default = route.prefix == "default" || (route.prefix == "0.0.0.0" && netmask_of(route) == "0.0.0.0");
  if (is_default) return Outcome::skip("the default route is every address");
  if (is_automatic(route)) return Outcome::skip("a route that the system made itself");
  if (!is_null(route)) return Outcome::skip("a route to a gateway or an interface: packets are not thrown away");
  return take_prefix_of(route, {number}, options, list);
}

bool is_prefix(std::string_view text) {
  ListDraft list;
  return take(text, {1}, {}, list) == nullptr;
}

bool is_like(std::string_view line) {
  constexpr std::array<std::string_view, 5> kBehind = {"via", "dev", "proto", "scope", "metric"};
  const Route route = route_in(line);
  std::string_view rest = route.rest;
  return route.is_command || (is_prefix(route.prefix) && is_one_of(next_word(rest), kBehind));
}

// Of what else but a table of routes no line is like this, though most lines of it may be plain entries with remarks.
bool decides(std::string_view line) {
  const Route route = route_in(line);
  if (route.prefix == "default") return trim(route.rest).starts_with("via ");
  return (is_one_of(route.type, kNull) || route.type == "throw" || is_automatic(route)) && is_prefix(route.prefix);
}

std::string recognise(std::string_view beginning) {
  return recognise_lines(beginning, is_like, "is a route", decides);
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return [options](std::string_view part, ListDraft& list) {
    read_lines(part, list,
               [&](std::string_view line, uint32_t number) { return read_line(line, number, options, list); });
  };
}

}  // namespace ip_route

extern const Format kIpRouteFormat;
const Format kIpRouteFormat = {"iproute", "`ip route add PREFIX ...` a line, or what `ip route show` prints",
                               ip_route::recognise, ip_route::start};

}  // namespace weir::control::feeds
