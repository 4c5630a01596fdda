#include <array>

#include "control/read/feeds/take.h"

// Routes: `ip route add PREFIX ...` (replace, append, ...) a line, or what `ip route show` prints.
namespace weir::control::feeds {
namespace ip_route {

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr std::array<std::string_view, 5> kVerbs = {"add", "replace", "change", "append", "prepend"};
constexpr std::array<std::string_view, 3> kOpposites = {"del", "delete", "flush"};
// A route's type, which may stand in front of its prefix.
constexpr std::array<std::string_view, 9> kTypes = {"unicast", "blackhole", "unreachable", "prohibit", "throw",
                                                    "local",   "broadcast", "multicast",   "to"};

// The prefix of a route, taken off the line with all before it. is_command: `route` stood in front.
std::string_view prefix_in(std::string_view& line, bool& is_command, bool& is_opposite) {
  is_command = is_opposite = false;
  std::string_view word = next_word(line);
  if (word == "sudo") word = next_word(line);
  if (word == "ip" || word.ends_with("/ip")) {
    word = next_word(line);
    while (word.size() > 1 && word[0] == '-') word = next_word(line);
  }
  if (word == "route" || word == "r" || word == "ro") {
    is_command = true;
    word = next_word(line);
    is_opposite = is_one_of(word, kOpposites);
    if (is_opposite || is_one_of(word, kVerbs)) word = next_word(line);
  }
  if (is_one_of(word, kTypes)) word = next_word(line);
  return word;
}

Outcome read_line(std::string_view line, uint32_t number, const Options& options, ListDraft& list) {
  if (line[0] == '#') return {};
  bool is_command = false, is_opposite = false;
  const std::string_view prefix = prefix_in(line, is_command, is_opposite);
  if (is_opposite) return Outcome::skip("a route that is taken out");
  if (prefix == "default") return Outcome::skip("the default route is every address");
  if (prefix.empty() || prefix.find_first_of("-[") != std::string_view::npos) return "no route";
  const EntryText parsed = parse_entry(prefix, LeadingZeros::decimal);
  const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed);
  const auto* v6 = std::get_if<ParsedEntry<Ipv6>>(&parsed);
  if ((v4 != nullptr && v4->port != 0) || (v6 != nullptr && v6->port != 0)) return "a route has no port";
  return take(prefix, {number}, options, list);
}

bool is_like(std::string_view line) {
  bool is_command = false, is_opposite = false;
  const std::string_view prefix = prefix_in(line, is_command, is_opposite);
  if (is_command) return true;
  ListDraft list;
  return prefix != "default" && !prefix.empty() && take(prefix, {1}, {}, list) == nullptr;
}

std::string recognise(std::string_view beginning) {
  return recognise_lines(beginning, is_like, "is a route");
}

Read start(const Options& options) {
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
