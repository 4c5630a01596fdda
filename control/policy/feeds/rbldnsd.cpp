#include "control/policy/feeds/statements.h"

// Zones of rbldnsd (ip4set, ip4trie, ip6trie): an entry a line and behind it its value, `:127.0.0.2:text`. A line that
// begins with a colon is the value of those that have none.
namespace weir::control::feeds {
namespace rbldnsd {

// What `200-210` or `100.0-101.255` means behind the first address: its last octets.
std::string last_of(std::string_view first, std::string_view last) {
  const auto octets = [](std::string_view text) { return std::count(text.begin(), text.end(), '.') + 1; };
  if (first.find(':') != std::string_view::npos || octets(last) >= octets(first)) return std::string(last);
  std::string_view kept = first;
  for (auto i = octets(last); i > 0; i--) kept = kept.substr(0, kept.rfind('.'));
  return std::string(kept) + "." + std::string(last);
}

Outcome take_entry(std::string_view word, At at, const Options& options, ListDraft& list) {
  if (is_name(word)) return Outcome::skip("a name, not an address");
  if (const size_t hyphen = word.find('-'); hyphen != std::string_view::npos) {
    const std::string_view first = word.substr(0, hyphen);
    return take(std::string(first) + "-" + last_of(first, word.substr(hyphen + 1)), at, options, list);
  }
  const size_t slash = word.find('/');
  const std::string network = network_of_octets(word.substr(0, slash));
  if (network.empty()) return take(word, at, options, list);
  const std::string_view address = std::string_view(network).substr(0, network.find('/'));
  return slash == std::string_view::npos ? take(network, at, options, list)
                                         : take_prefix(address, word.substr(slash + 1), at, options, list);
}

Outcome read_line(std::string_view line, uint32_t number, const Options& options, ListDraft& list) {
  if (line[0] == '#' || line[0] == ';' || line[0] == '$' || line[0] == ':') return {};
  if (line[0] == '!') return Outcome::skip("`!`: an exception, which a pass list says");
  std::string_view word = next_word(line);
  // A value may follow at once.
  const size_t colon = word.find(':');
  if (colon != std::string_view::npos && word.substr(0, colon).find('.') != std::string_view::npos) {
    word = word.substr(0, colon);
  }
  return take_entry(word, {number}, options, list);
}

bool decides(std::string_view line) {
  for (const std::string_view directive : {"$SOA", "$NS", "$TTL"}) {
    if (line.starts_with(directive) && line.size() > directive.size() && is_blank(line[directive.size()])) return true;
  }
  return line.starts_with(":127.") && line.find(':', 1) != std::string_view::npos;
}

std::string recognise(std::string_view beginning) {
  return recognise_lines(
      beginning, [](std::string_view) { return false; }, "is of a zone of rbldnsd", decides);
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return [options](std::string_view part, ListDraft& list) {
    read_lines(part, list,
               [&](std::string_view line, uint32_t number) { return read_line(line, number, options, list); });
  };
}

}  // namespace rbldnsd

extern const Format kRbldnsdFormat;
const Format kRbldnsdFormat = {"rbldnsd", "a zone of rbldnsd: networks and ranges before `:127.0.0.2:text`",
                               rbldnsd::recognise, rbldnsd::start};

}  // namespace weir::control::feeds
