#include <memory>
#include <vector>

#include "control/policy/feeds/statements.h"
#include "control/policy/feeds/verdict.h"

// Rules of Suricata and Snort: `alert ip [A,B,!C] any -> $HOME_NET any (msg:"..."; sid:1;)`. The side that names
// addresses is read, of rules that ask for nothing else of a packet.
namespace weir::control::feeds {
namespace suricata {

constexpr Joining kJoining = {.keeps_indent = true, .joins_comments = false};
constexpr const char* kActions[] = {"alert", "drop",  "reject", "rejectsrc", "rejectdst", "rejectboth",
                                    "block", "sdrop", "pass",   "log",       "react",     "config"};
constexpr const char* kProtocols[] = {"ip", "ipv4", "ipv6", "ip4", "ip6", "tcp", "udp", "icmp", "any"};

template <size_t N>
bool is_one_of(std::string_view word, const char* const (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

// One side of a rule.
struct Side {
  std::vector<std::string_view> literals;  // addresses, networks, or what should be
  unsigned exceptions = 0;                 // negated members
  bool is_broken = false;

  void add(std::string_view text, bool is_negated, unsigned depth) {
    constexpr unsigned kMostDepth = 8;
    text = trim(text);
    if (text.starts_with('!')) {
      is_negated = true;
      text = trim(text.substr(1));
    }
    if (text.empty() || depth > kMostDepth) {
      is_broken = true;
    } else if (text[0] == '[') {
      text.ends_with(']') ? add_all(text.substr(1, text.size() - 2), is_negated, depth) : (void)(is_broken = true);
    } else if (text[0] == '$' || text == "any") {
      return;
    } else if (is_negated) {
      exceptions++;
    } else {
      literals.push_back(text);
    }
  }

 private:
  void add_all(std::string_view members, bool is_negated, unsigned depth) {
    unsigned open = 0;
    size_t begin = 0;
    for (size_t i = 0; i <= members.size(); i++) {
      const char c = i < members.size() ? members[i] : ',';
      if (c == '[') open++;
      if (c == ']' && open-- == 0) return void(is_broken = true);
      if (c != ',' || (open > 0 && i < members.size())) continue;
      add(members.substr(begin, i - begin), is_negated, depth + 1);
      begin = i + 1;
    }
  }
};

// The next word; blanks inside of brackets belong to it.
std::string_view next_field(std::string_view& text) {
  text = trim(text);
  size_t end = 0, open = 0;
  for (; end < text.size() && (open > 0 || !is_blank(text[end])); end++) {
    if (text[end] == '[') open++;
    if (text[end] == ']' && open > 0) open--;
  }
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(end);
  return field;
}

bool is_direction(std::string_view field) {
  return field == "->" || field == "<>" || field == "=>";
}

// Options that ask for something inside of the packet.
bool asks_for_content(std::string_view options) {
  constexpr std::string_view kNames[] = {"content", "uricontent", "pcre",     "byte_test", "byte_jump",
                                         "dataset", "datarep",    "iprep",    "lua",       "luajit",
                                         "dsize",   "flags",      "ja3.hash", "isdataat"};
  bool is_quoted = false, begins = true;
  for (size_t i = 0; i < options.size(); i++) {
    const char c = options[i];
    if (c == '"' && (i == 0 || options[i - 1] != '\\')) is_quoted = !is_quoted;
    if (is_quoted) continue;
    if (begins && !is_blank(c) && c != '(') {
      begins = false;
      const std::string_view name = options.substr(i, options.substr(i).find_first_of(":; "));
      if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
    }
    if (c == ';') begins = true;
  }
  return false;
}

// Each member is counted by itself.
Outcome take_side(const Side& side, std::string_view rule, std::string_view port, uint32_t number,
                  const Options& options, ListDraft& list) {
  const bool has_port = port != "any";
  if (has_port && !is_number(port)) {
    return Outcome::skip("a rule about some ports of its addresses: write flows in the policy");
  }
  for (unsigned i = 0; i < side.exceptions; i++) {
    add_skipped_line(list.feed, number, rule, "`!`: an exception, which a pass list says");
  }
  for (const std::string_view literal : side.literals) {
    const bool is_network = literal.find('/') != std::string_view::npos;
    if (has_port && is_network) {
      add_skipped_line(list.feed, number, literal, "a port of a network: write it as a flow in the policy");
    } else {
      const char* why =
          has_port ? take_port(literal, port, {number}, options, list) : take(literal, {number}, options, list);
      add_outcome(why, list.feed, number, literal);
    }
  }
  return {};
}

Outcome read_rule(std::string_view whole, uint32_t number, const Options& options, ListDraft& list) {
  std::string_view rule = whole;
  const std::string_view action = next_field(rule), protocol = next_field(rule);
  if (!is_one_of(action, kActions)) return "no rule: its first word is no action";
  if (trim(rule).empty()) return "no whole rule";
  if (protocol.starts_with('(') || trim(rule).starts_with('(')) return Outcome::skip("a rule without addresses");
  const std::string_view from = next_field(rule), from_port = next_field(rule), direction = next_field(rule),
                         to = next_field(rule), to_port = next_field(rule);
  rule = trim(rule);
  if (!is_direction(direction) || !rule.starts_with('(') || !rule.ends_with(')')) return "no whole rule";
  Side source, destination;
  source.add(from, false, 0);
  destination.add(to, false, 0);
  if (source.is_broken || destination.is_broken)
    return "a list of addresses that is not closed, or has an empty member";
  const bool has_addresses = !source.literals.empty() || !destination.literals.empty();
  if (!has_addresses) {
    return Outcome::skip(source.exceptions + destination.exceptions > 0 ? "`!`: a rule about all other addresses"
                                                                        : "a rule without addresses");
  }
  if (action == "log" || action == "config") return Outcome::skip("a rule that neither alerts nor drops");
  const Verdict verdict = action == "pass" ? Verdict::pass : Verdict::block;
  if (const char* why = why_not_of(verdict, options.action)) return Outcome::skip(why);
  if (!source.literals.empty() && !destination.literals.empty()) {
    return Outcome::skip("a rule with addresses on both sides: write it as a flow in the policy");
  }
  if (!is_one_of(protocol, kProtocols)) return Outcome::skip("a rule about an application's protocol");
  if (asks_for_content(rule)) return Outcome::skip("a rule that also asks for what is in the packet");
  const bool is_source = !source.literals.empty();
  return take_side(is_source ? source : destination, whole, is_source ? from_port : to_port, number, options, list);
}

bool is_like(std::string_view line) {
  const std::string_view action = next_field(line);
  const bool has_direction = line.find(" -> ") != std::string_view::npos || line.find(" <> ") != std::string_view::npos;
  return is_one_of(action, kActions) && has_direction && line.find('(') != std::string_view::npos;
}

std::string recognise(std::string_view beginning) {
  return recognise_statements(beginning, is_like, "is a rule of Suricata or Snort");
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return [options, open = std::make_shared<Unfinished>()](std::string_view part, ListDraft& list) {
    read_statements(part, kJoining, *open, list,
                    [&](std::string_view rule, uint32_t number) { return read_rule(rule, number, options, list); });
  };
}

}  // namespace suricata

extern const Format kSuricataFormat;
const Format kSuricataFormat = {"suricata", "rules of Suricata or Snort about addresses alone", suricata::recognise,
                                suricata::start};

}  // namespace weir::control::feeds
