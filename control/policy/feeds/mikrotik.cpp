#include <memory>
#include <vector>

#include "control/policy/feeds/statements.h"
#include "control/policy/feeds/verdict.h"

// Scripts of MikroTik's RouterOS: `add list=NAME address=ADDRESS` below `/ip firewall address-list`, or behind it.
namespace weir::control::feeds {
namespace mikrotik {

constexpr Joining kJoining = {.keeps_indent = false, .joins_comments = false};
constexpr std::string_view kVerbs[] = {"add",   "set",  "remove", "disable", "enable", "print",  "export", "find",
                                       "unset", "move", "edit",   "comment", "reset",  "import", "get"};

bool is_verb(std::string_view word) {
  return std::find(std::begin(kVerbs), std::end(kVerbs), word) != std::end(kVerbs);
}

// Pieces of a line: `;`, `{` and `}` divide them, outside of quotes and square brackets.
std::vector<std::string_view> pieces_of(std::string_view line) {
  std::vector<std::string_view> pieces;
  bool is_quoted = false;
  unsigned open = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= line.size(); i++) {
    const char c = i < line.size() ? line[i] : ';';
    const bool is_escaped = i > 0 && i < line.size() && line[i - 1] == '\\';
    if (c == '"' && !is_escaped) is_quoted = !is_quoted;
    if (!is_quoted && c == '[') open++;
    if (!is_quoted && c == ']' && open > 0) open--;
    const bool divides = (c == ';' || c == '{' || c == '}') && !is_quoted && open == 0;
    if (!divides && i < line.size()) continue;
    if (const std::string_view piece = trim(line.substr(begin, i - begin)); !piece.empty()) pieces.push_back(piece);
    begin = i + 1;
  }
  return pieces;
}

// The next `key=value`, taken off the text, without its quotes.
struct Argument {
  std::string_view key, value;
};
Argument next_argument(std::string_view& text) {
  text = trim(text);
  const size_t equals = text.find_first_of("= \t");
  Argument argument = {text.substr(0, equals), {}};
  if (equals == std::string_view::npos || text[equals] != '=') {
    text.remove_prefix(std::min(equals, text.size()));
    return argument;
  }
  text.remove_prefix(equals + 1);
  size_t end = 0;
  if (text.starts_with('"')) {
    for (end = 1; end < text.size() && (text[end] != '"' || text[end - 1] == '\\');) end++;
    argument.value = text.substr(1, end - 1);
    end = std::min(end + 1, text.size());
  } else {
    while (end < text.size() && !is_blank(text[end])) end++;
    argument.value = text.substr(0, end);
  }
  text.remove_prefix(end);
  return argument;
}

// 1d2h, 00:30:00, 1d 00:30:00, 1w2d03:04:05. none-dynamic, none-static, 0s: it has no end.
std::optional<uint64_t> timeout_seconds(std::string_view text) {
  if (text.starts_with("none")) return 0;
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return duration_seconds(text);
  const size_t day = text.find_last_of("wd \t", colon);
  std::string_view days, clock = text;
  if (day != std::string_view::npos) {
    days = trim(text.substr(0, day + 1));
    clock = trim(text.substr(day + 1));
  }
  const auto seconds = days.empty() ? 0 : duration_seconds(days);
  if (!seconds) return std::nullopt;
  uint64_t sum = 0;
  for (int i = 0; i < 3; i++) {
    const size_t end = i < 2 ? clock.find(':') : clock.size();
    if (end == std::string_view::npos || !is_number(clock.substr(0, end)) || end > 6) return std::nullopt;
    sum = sum * 60 + std::stoul(std::string(clock.substr(0, end)));
    clock.remove_prefix(std::min(end + 1, clock.size()));
  }
  return *seconds + sum;
}

Outcome add(std::string_view arguments, uint32_t number, const Options& options, ListDraft& list) {
  std::string_view address, name, timeout;
  bool is_disabled = false;
  while (!trim(arguments).empty()) {
    const Argument argument = next_argument(arguments);
    if (argument.key == "address") address = argument.value;
    if (argument.key == "list") name = argument.value;
    if (argument.key == "timeout") timeout = argument.value;
    if (argument.key == "disabled") is_disabled = argument.value == "yes" || argument.value == "true";
  }
  if (address.empty() || name.empty()) return "no `add list=NAME address=ADDRESS`";
  if (is_disabled) return Outcome::skip("an entry that is disabled");
  if (const char* why = why_not_named(verdict_of_name(name), options.action)) return Outcome::skip(why);
  if (is_name(address)) return Outcome::skip("a name, not an address");
  At at = {number};
  if (!timeout.empty()) {
    const auto seconds = timeout_seconds(timeout);
    if (!seconds) return "the timeout is no time";
    if (*seconds > 0) at.expires = expires_after(*seconds, options);
  }
  return take(address, at, options, list);
}

class Reader {
 public:
  explicit Reader(const Options& options) : options_(options) {}

  Outcome read_line(std::string_view line, uint32_t number, ListDraft& list) {
    for (const std::string_view piece : pieces_of(line)) {
      add_outcome(read_piece(piece, number, list), list.feed, number, piece);
    }
    return {};
  }

 private:
  Outcome read_piece(std::string_view piece, uint32_t number, ListDraft& list) {
    if (piece == ":do" || piece == "do=" || piece == "on-error=" || piece == "else=") return {};
    if (piece[0] == ':') return Outcome::skip("a command of the script that weir does not run");
    const bool is_absolute = piece[0] == '/';
    std::string path = is_absolute ? std::string() : path_;
    std::string_view rest = piece;
    std::string_view verb;
    while (verb.empty() && !rest.empty()) {
      const size_t from = rest.find_first_not_of(" \t/");
      rest.remove_prefix(std::min(from, rest.size()));
      const std::string_view word = rest.substr(0, rest.find_first_of(" \t/="));
      const bool is_argument = rest.substr(word.size()).starts_with('=');
      if (word.empty() || is_argument) break;
      rest.remove_prefix(word.size());
      is_verb(word) ? (void)(verb = word) : (void)(path += (path.empty() ? "" : " ") + std::string(word));
    }
    if (verb.empty() && is_absolute && trim(rest).empty()) return path_ = path, Outcome();
    const bool is_list = path == "ip firewall address-list" || path == "ipv6 firewall address-list";
    const bool is_fragment =
        path.empty() && rest.find("address=") != std::string_view::npos && rest.find("list=") != std::string_view::npos;
    if (verb == "add" && (is_list || is_fragment)) return add(rest, number, options_, list);
    if (verb.empty()) return "no command of RouterOS";
    return Outcome::skip(is_list ? "a command that adds no entry" : "a command of another menu than address lists");
  }

  const Options options_;
  std::string path_;  // of the menu that commands without a path are of
};

bool is_like(std::string_view line) {
  const auto has = [&](const char* text) { return line.find(text) != std::string_view::npos; };
  const bool is_list = has("/ip firewall address-list") || has("/ipv6 firewall address-list") ||
                       has("/ip/firewall/address-list") || has("/ipv6/firewall/address-list");
  const bool is_entry = (line.starts_with("add ") || line.starts_with(":do { add ") || line.starts_with(":do {add ")) &&
                        has(" address=") && has(" list=");
  return is_list || is_entry;
}

std::string recognise(std::string_view beginning) {
  return recognise_statements(beginning, is_like, "is of an address list of RouterOS");
}

Read start(const Options& options, std::string_view /*beginning*/) {
  auto reader = std::make_shared<Reader>(options);
  return [reader, open = std::make_shared<Unfinished>()](std::string_view part, ListDraft& list) {
    read_statements(part, kJoining, *open, list,
                    [&](std::string_view line, uint32_t number) { return reader->read_line(line, number, list); });
  };
}

}  // namespace mikrotik

extern const Format kMikrotikFormat;
const Format kMikrotikFormat = {"mikrotik", "address lists in a script of MikroTik's RouterOS (.rsc)",
                                mikrotik::recognise, mikrotik::start};

}  // namespace weir::control::feeds
