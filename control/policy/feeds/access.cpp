#include "control/policy/feeds/csv_layout.h"
#include "control/policy/feeds/format.h"
#include "control/policy/feeds/statements.h"
#include "control/policy/feeds/verdict.h"

// Tables of access: `ADDRESS VERDICT [text]` a line, as Postfix (cidr_table(5), access(5)), sendmail and HAProxy's maps
// have them.
namespace weir::control::feeds {
namespace access {

// Actions of Postfix that neither block nor let through.
constexpr std::string_view kOtherActions[] = {"hold",     "warn", "info",  "filter", "prepend",
                                              "redirect", "bcc",  "delay", "subject"};

bool is_flag(std::string_view word) {
  return word == "0" || word == "1" || word == "true" || word == "false";
}

// 550, 450: an answer of SMTP that rejects.
bool is_code(std::string_view word) {
  return word.size() == 3 && (word[0] == '4' || word[0] == '5') && is_number(word);
}

// The word before a colon, too: `ERROR:5.7.1:550 no`.
Verdict verdict_in(std::string_view word) {
  if (is_code(word)) return Verdict::block;
  const std::string name = lower(word.substr(0, word.find(':')));
  if (name == "error" || name.starts_with("defer") || name.starts_with("reject_")) return Verdict::block;
  if (name.starts_with("permit_")) return Verdict::pass;
  return verdict_of_word(word.substr(0, word.find(':')));
}

bool is_other_action(std::string_view word) {
  const std::string name = lower(word.substr(0, word.find(':')));
  return std::find(std::begin(kOtherActions), std::end(kOtherActions), name) != std::end(kOtherActions);
}

// sendmail names what its key is compared with: `Connect:192.0.2.1`, `IPv6:2001:db8::1`.
std::string_view without_tag(std::string_view key) {
  for (const std::string_view tag : {"connect:", "ipv6:"}) {
    if (lower(key.substr(0, tag.size())) == tag) key.remove_prefix(tag.size());
  }
  return key;
}

bool is_condition(std::string_view line) {
  const std::string word = lower(next_word(line));
  return word == "if" || word == "endif";
}

Outcome read_line(std::string_view line, uint32_t number, bool has_flags, const Options& options, ListDraft& list) {
  if (line[0] == '#' || list.fault) return {};
  if (is_condition(line)) {
    list.fault = FeedFault{
        "is a table of Postfix with conditions: line " + std::to_string(number) + " is `" + shortened(line, 40) + "`",
        "write the networks that it rejects as a plain list, an entry a line"};
    return "a condition of Postfix";
  }
  const std::string_view key = without_tag(next_word(line)), word = next_word(line);
  if (key.starts_with('!')) return Outcome::skip("`!`: a rule about all other addresses");
  if (word.empty()) return "no `ADDRESS VERDICT`";
  Verdict verdict = verdict_in(word);
  if (has_flags && is_flag(word)) verdict = word == "1" || word == "true" ? Verdict::block : Verdict::pass;
  if (verdict == Verdict::none && is_other_action(word)) {
    return Outcome::skip("an action that neither blocks nor lets through");
  }
  if (verdict == Verdict::none) return "a verdict that is not known";
  if (const char* why = why_not_of(verdict, options.action)) return Outcome::skip(why);
  if (is_name(key)) return Outcome::skip("a name, not an address");
  const std::string network = network_of_octets(key);
  return take(network.empty() ? key : std::string_view(network), {number}, options, list);
}

// How the lines of a beginning that are no comments look.
struct Look {
  unsigned asked = 0, words = 0, flags = 0, bare = 0, first = 0;
};
Look look_at(std::string_view beginning) {
  constexpr unsigned kAsked = 1000;
  Look look;
  unsigned number = 0;
  while (!beginning.empty() && look.asked < kAsked) {
    const bool is_whole = beginning.find('\n') != std::string_view::npos;
    std::string_view line = trim(next_line(beginning));
    number++;
    if (line.empty() || line[0] == '#' || (!is_whole && look.asked > 0)) continue;
    look.asked++;
    const std::string_view key = without_tag(next_word(line)), word = next_word(line);
    if (is_condition(key)) {
      look.asked--;
      continue;
    }
    const bool is_key = is_plain_entry(key) || !network_of_octets(key).empty();
    if (is_key && (word.empty() || word[0] == '#' || word[0] == ';')) look.bare++;
    // A code needs its text: a number alone counts something.
    const bool has_word = verdict_in(word) != Verdict::none && (!is_code(word) || !trim(line).empty());
    if (!is_key || (!has_word && !is_flag(word))) continue;
    if (has_word && look.words++ == 0) look.first = number;
    look.flags += !has_word;
  }
  return look;
}

// Bare addresses are none of its lines; a plain list has them.
std::string recognise(std::string_view beginning) {
  const Look look = look_at(beginning);
  const bool is_table = look.words > 0 && csv::why_table(beginning).empty() && look.bare == 0 &&
                        (look.words + look.flags) * 3 >= look.asked * 2;
  return is_table ? "line " + std::to_string(look.first) + " is `ADDRESS VERDICT`" : "";
}

Read start(const Options& options, std::string_view beginning) {
  return [options, has_flags = look_at(beginning).words > 0](std::string_view part, ListDraft& list) {
    read_lines(part, list, [&](std::string_view line, uint32_t number) {
      return read_line(line, number, has_flags, options, list);
    });
  };
}

}  // namespace access

extern const Format kAccessFormat;
const Format kAccessFormat = {"access", "`ADDRESS VERDICT` a line: tables of Postfix and sendmail, maps of HAProxy",
                              access::recognise, access::start};

}  // namespace weir::control::feeds
