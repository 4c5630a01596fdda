#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "control/policy/feeds/field_names.h"
#include "control/policy/feeds/format.h"
#include "control/policy/feeds/take.h"
#include "control/policy/feeds/verdict.h"
#include "control/policy/feeds/words.h"

namespace weir::control::feeds {
namespace plain {

constexpr const char* kTwoAddresses = "a second address stands behind the first";
constexpr const char* kLengthBehind = "a prefix length or a netmask stands apart from its address";
constexpr const char* kShortRange = "a hyphen and a number follow: a short range, or a range of ports";

std::string_view without_front(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}

size_t word_length(std::string_view text) {
  return static_cast<size_t>(std::find_if(text.begin(), text.end(), is_blank) - text.begin());
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_word_letter(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
}

// The longest beginning that has only letters of addresses.
std::string_view address_letters(std::string_view text) {
  const auto is_letter = [](char c) { return is_hex(c) || c == '.' || c == ':'; };
  return text.substr(0, static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_letter) - text.begin()));
}

bool is_address(std::string_view text) {
  return parse_ipv4(text) || parse_ipv6(text);
}

// `::` alone is a sign.
bool is_entry_word(std::string_view text) {
  return text != "::" && is_entry(text);
}

// Whether what begins with these letters was meant as an address of the family of `first`, and is none: 192.0.2.999.
bool is_broken_address(std::string_view letters, std::string_view first) {
  const auto count = [](std::string_view text, char c) { return std::count(text.begin(), text.end(), c); };
  if (count(first, ':') > 1 && first[0] != '[') return count(letters, ':') > 1;
  return count(letters, '.') > 2;
}

// Of a line without its comment: the entry, and the words behind it.
struct EntryAndRest {
  std::string_view entry, behind;
  const char* why_bad = nullptr;
};

// The entry is the first word, or up to three when a hyphen makes them a range (`a - b`, `a -b`, `a- b`). A hyphen
// before a digit that begins no address is a short range, or one of ports; before anything else it begins a remark.
EntryAndRest parts_of(std::string_view line) {
  const size_t first_end = word_length(line);
  size_t hyphen = line.substr(0, first_end).find('-');
  const bool is_apart = hyphen == std::string_view::npos;
  if (is_apart) {
    hyphen = first_end + (line.size() - first_end - without_front(line.substr(first_end)).size());
    if (hyphen == line.size() || line[hyphen] != '-') return {line.substr(0, first_end), line.substr(first_end)};
  }
  const std::string_view first = line.substr(0, std::min(hyphen, first_end));
  const std::string_view after = without_front(line.substr(hyphen + 1));
  const std::string_view word = after.substr(0, word_length(after));
  const std::string_view letters = address_letters(word);
  const auto up_to = [&](std::string_view end) {
    return line.substr(0, static_cast<size_t>(end.end() - line.begin()));
  };
  const auto behind = [&](std::string_view end) { return line.substr(static_cast<size_t>(end.end() - line.begin())); };
  if (!is_address(letters)) {
    if (is_broken_address(letters, first)) return {up_to(word), behind(word)};
    const bool is_v6 = std::count(first.begin(), first.end(), ':') > 1;
    const bool is_hex_end = is_v6 && !word.empty() && std::all_of(word.begin(), word.end(), is_hex) &&
                            (!is_apart || std::any_of(word.begin(), word.end(), is_digit));
    const bool is_short_end = is_hex_end || (is_v6 && !word.empty() && word.size() <= 4 && trim(behind(word)).empty() &&
                                             std::all_of(word.begin(), word.end(), is_hex));
    if (!is_apart && word.find('.') != std::string_view::npos && word.size() == after.size()) {
      return {up_to(word), behind(word), "a host's name, no address"};  // 203.0.113.7-static.example.net
    }
    if ((!word.empty() && is_digit(word[0])) || is_short_end) return {up_to(word), behind(word), kShortRange};
    return {first, line.substr(hyphen)};
  }
  const std::string_view rest = word.substr(letters.size());
  const auto begins_address = [&](std::string_view text) {
    const std::string_view more = address_letters(text);
    return is_address(more) || is_broken_address(more, first) || (!text.empty() && is_digit(text[0]));
  };
  const bool is_remark = rest.starts_with('-') && !begins_address(rest.substr(1));
  const std::string_view end = is_remark ? letters : word;
  return {up_to(end), behind(end)};
}

// `(trusted),` -> trusted
std::string_view bare(std::string_view word) {
  while (!word.empty() && !is_word_letter(word.front()) && !word.starts_with("::")) word.remove_prefix(1);
  while (!word.empty() && !is_word_letter(word.back()) && !word.ends_with("::")) word.remove_suffix(1);
  return word;
}

// Words that join two addresses, or an address and its length.
bool joins(std::string_view word) {
  constexpr std::string_view kJoining[] = {"and",     "or",   "to",   "through", "thru",      "until",  "till",
                                           "upto",    "bis",  "und",  "et",      "y",         "e",      "hasta",
                                           "a",       "au",   "oder", "ou",      "o",         "with",   "vs",
                                           "netmask", "mask", "len",  "prefix",  "prefixlen", "length", "masklen"};
  if (std::none_of(word.begin(), word.end(),
                   [](char c) { return is_digit(c) || (c >= 'A' && c <= 'z' && c != '\\'); })) {
    return true;  // `&`, `->`, an em dash
  }
  const std::string small = lower(word);
  return std::find(std::begin(kJoining), std::end(kJoining), small) != std::end(kJoining);
}

bool names_length(std::string_view word) {
  constexpr std::string_view kNames[] = {"netmask", "mask", "len", "prefix", "prefixlen", "length", "masklen", "/"};
  return std::find(std::begin(kNames), std::end(kNames), lower(word)) != std::end(kNames);
}

// What the second and further words say of the entry. number: the second word, when it is one.
Outcome look_behind(std::string_view behind, weir_action action, std::string_view& number) {
  constexpr size_t kMostTogether = 3;  // `not a threat`
  std::string_view word = next_word(behind);
  if (is_number(word)) return number = word, Outcome();
  if (word.size() > 1 && word[0] == '/' && is_digit(word[1])) return kLengthBehind;
  if (is_entry_word(bare(word))) return kTwoAddresses;
  if (joins(word)) {
    std::string_view further = behind;
    std::string_view next = next_word(further);
    while (!next.empty() && bare(next).empty()) next = next_word(further);  // `- - 192.0.2.9`
    const bool is_length_word = names_length(word);
    constexpr std::string_view kDashes[] = {"\xe2\x80\x93", "\xe2\x80\x94", "\xe2\x88\x92", "~", "..", "..."};
    if (words::is_one_of(word, kDashes) && !next.empty() && is_digit(next[0])) return kShortRange;
    if (is_entry_word(bare(next))) return is_length_word ? kLengthBehind : kTwoAddresses;
    if (is_length_word && !next.empty() && is_length(next)) return kLengthBehind;
    if (bare(word).empty()) word = next_word(behind);  // `- trusted`
  }
  const size_t sign = word.find_first_of("=:");
  if (sign != std::string_view::npos && sign > 0 && sign + 1 < word.size()) {
    const std::string_view value = word.substr(sign + 1);
    if (is_entry_word(bare(value))) return {};
    if (const char* why = why_not_of(verdict_of_member(word.substr(0, sign), value), action)) return Outcome::skip(why);
  }
  // One word, or up to three of them together.
  std::string phrase;
  for (size_t i = 0; i < kMostTogether && !word.empty(); i++, word = next_word(behind)) {
    phrase += word;
    if (const char* why = why_not_of(verdict_of_word(phrase), action)) return Outcome::skip(why);
  }
  return {};
}

// Bytes that nobody sees, or that look like others.
const char* strange_letter(std::string_view word) {
  constexpr struct {
    std::string_view bytes;
    const char* why;
  } kStrange[] = {
      {"\xef\xbb\xbf", "a byte order mark (U+FEFF), which is invisible, stands in the line"},
      {"\xc2\xa0", "a no-break space (U+00A0), which is invisible, stands in the line"},
      {"\xe2\x80\x8b", "a zero-width space (U+200B), which is invisible, stands in the line"},
      {"\xe2\x80\x8e", "a mark of direction (U+200E), which is invisible, stands in the line"},
      {"\xe2\x80\x8f", "a mark of direction (U+200F), which is invisible, stands in the line"},
      {"\xc2\xad", "a soft hyphen (U+00AD), which is invisible, stands in the line"},
      {"\xe2\x80\x93", "a dash (U+2013) that is no hyphen stands in the line"},
      {"\xe2\x80\x94", "a dash (U+2014) that is no hyphen stands in the line"},
  };
  for (const auto& one : kStrange) {
    if (word.find(one.bytes) != std::string_view::npos) return one.why;
  }
  if (word.find('\0') != std::string_view::npos) return "a NUL byte, which is invisible, stands in the line";
  const bool is_ascii = std::none_of(word.begin(), word.end(), [](char c) { return (c & 0x80) != 0; });
  return is_ascii ? nullptr : "a letter that is not ASCII stands in the entry";
}

// The word that follows a `;` at once, or several of them.
std::string_view field_behind(std::string_view behind) {
  while (behind.starts_with(';')) behind.remove_prefix(1);
  return behind.substr(0, std::min(behind.find_first_of(" \t;,#"), behind.size()));
}

// What a `;` begins is a comment, unless an address, a length or a number follows it at once.
bool begins_field(std::string_view behind) {
  const std::string_view word = field_behind(behind);
  return is_length(word) || is_number(word) || is_entry_word(word);
}

// "3405803776","3405804031": addresses of IPv4 as numbers.
bool is_decimal(std::string_view entry) {
  const std::string_view first = bare(entry.substr(0, entry.find_first_of(",;|")));
  return first.size() > 7 && is_number(first);
}

struct Line {
  std::string_view text;        // without its comment; empty: nothing is left
  std::string_view glued = {};  // the comment that follows a `;` at once, without a blank around that
  Outcome outcome = {};         // what the line is without looking at an entry
};

Line line_of(std::string_view line) {
  if (line[0] == '#' || line.starts_with("//")) return {};
  if (line[0] == ';') {
    return begins_field(line.substr(1)) ? Line{{}, {}, "an address or a number behind `;`"} : Line{};
  }
  if (line[0] == '!') {
    std::string_view rest = line.substr(1);
    return {
        {}, {}, is_entry_word(bare(next_word(rest))) ? Outcome::skip("an exception: `!` stands before it") : Outcome()};
  }
  const size_t at = line.find_first_of("#;");
  if (at == std::string_view::npos) return {line};
  if (line[at] == '#') return {trim(line.substr(0, at))};
  const std::string_view behind = line.substr(at + 1);
  if (behind.empty() && !is_blank(line[at - 1]) && line.find_first_of(" \t") < at &&
      line.find_first_of("{}=") == std::string_view::npos) {
    return {{}, {}, "it ends in `;`, as a statement of another program does"};
  }
  if (begins_field(behind)) return {{}, {}, "an address or a number behind `;`"};
  const bool is_glued = !is_blank(line[at - 1]);
  if (is_glued && is_entry_word(field_behind(without_front(behind)))) {
    return {{}, {}, kTwoAddresses};
  }
  return {trim(line.substr(0, at)), is_glued && !behind.empty() && !is_blank(behind[0]) ? behind : std::string_view()};
}

// Most lines of most feeds are one IPv4 address and nothing else: read without looking for blanks, comments or words.
// Returns what follows its LF; null: it is another line, or one of the last of the text.
const char* read_host_line(const char* at, const char* end, Ipv4& address) {
  constexpr ptrdiff_t kLongest = sizeof "255.255.255.255\r\n" - 1;
  if (end - at < kLongest) return nullptr;
  uint32_t sum = 0;
  for (int octet = 0; octet < 4; octet++) {
    const auto digit = [&](int i) { return static_cast<uint32_t>(static_cast<uint8_t>(at[i])) - '0'; };
    uint32_t value = digit(0);
    if (value > 9) return nullptr;
    ptrdiff_t digits = 1;
    if (const uint32_t second = digit(1); second <= 9) {
      if (value == 0) return nullptr;  // a leading zero
      value = value * 10 + second;
      digits = 2;
      if (const uint32_t third = digit(2); third <= 9) {
        value = value * 10 + third;
        digits = 3;
        if (value > 255) return nullptr;
      }
    }
    sum = sum << 8 | value;
    at += digits;
    if (octet < 3 && *at++ != '.') return nullptr;
  }
  at += *at == '\r';
  if (*at != '\n') return nullptr;
  address = sum;
  return at + 1;
}

class Reader {
 public:
  explicit Reader(Options options) : options_(std::move(options)) {}

  void read(std::string_view text, ListDraft& list) {
    const uint64_t before = list.entries();
    if (text.empty()) end(list);
    auto number = static_cast<uint32_t>(list.feed.lines);  // fits: a feed is smaller than 4 GiB
    Entry<Ipv4> host = {0, 0, 0, 0, options_.directions, options_.source};
    while (!text.empty()) {
      number++;
      if (const char* next = read_host_line(text.data(), text.data() + text.size(), host.first); next != nullptr) {
        host.last = host.first;
        host.line = number;
        list.v4.push_back(host);
        text.remove_prefix(static_cast<size_t>(next - text.data()));
        continue;
      }
      const std::string_view line = trim(next_line(text));
      if (line.empty()) continue;
      add_outcome(read_line(line, number, list), list.feed, number, line);
    }
    list.feed.lines = number;
    entries_ += list.entries() - before;
    list.feed.entries += list.entries() - before;
  }

 private:
  Outcome read_line(std::string_view line, uint32_t number, ListDraft& list) {
    const Line split = line_of(line);
    if (split.text.empty()) return split.outcome;
    const EntryAndRest parts = parts_of(split.text);
    if (const char* why = strange_letter(parts.entry)) return why;
    if (parts.why_bad != nullptr) return is_entry_word(bare(parts.entry)) ? Outcome() : parts.why_bad;
    const std::string_view behind = without_front(parts.behind);
    std::string_view beside;
    if (!behind.empty() && is_entry_word(parts.entry)) {
      const Outcome outcome = look_behind(behind, options_.action, beside);
      if (outcome.kind != Outcome::fine) return outcome;
      look_further(behind, number);
    }
    if (!split.glued.empty()) {
      if (const char* why = why_not_of(verdict_of_word(split.glued), options_.action)) return Outcome::skip(why);
    }
    const char* why = take(parts.entry, {number}, options_, list);
    if (why != nullptr && is_decimal(parts.entry))
      why = "a decimal number: as an address it is not read, write it with dots";
    if (why == nullptr && !beside.empty()) {
      numbers_++;
      if (first_number_.empty()) first_number_ = fmt::format("line {}: {}", number, shortened(split.text, 40));
      doubt_.look(number, parts.entry, beside);
    }
    return why;
  }

  // Addresses in further words are remarks, unless most lines have them: then they are a column.
  void look_further(std::string_view behind, uint32_t number) {
    constexpr int kLooked = 8;
    next_word(behind);
    for (int i = 0; i < kLooked && !behind.empty(); i++) {
      const std::string_view word = bare(next_word(behind));
      if (word.size() < 3 || !is_hex(word[0]) || !is_entry_word(word)) continue;
      further_++;
      if (further_line_ == 0) further_line_ = number;
      return;
    }
  }

  void end(ListDraft& list) const {
    if (doubt_.is_founded()) {
      list.fault = FeedFault{
          fmt::format("has {} behind {} on line {}, which may be a prefix length or a number of something else",
                      shortened(doubt_.number(), 4), shortened(doubt_.address(), 45), doubt_.line()),
          "say so: `format: {csv: {address: 1, length: 2, separator: space}}`, or, without `length: 2`, that it is "
          "none"};
    } else if (further_ > 1 && further_ * 2 >= entries_) {
      list.fault = FeedFault{fmt::format("has further addresses on {} of {} lines, the first on line {}", further_,
                                         entries_, further_line_),
                             "say which column is meant: `format: {csv: {address: 1, separator: space}}`"};
    } else if (numbers_ * 2 > entries_) {
      list.feed.notes.push_back(
          {fmt::format("has numbers behind {} of its {} entries, which are not read; the first on {}", numbers_,
                       entries_, first_number_),
           "a prefix length or a port in a column of its own is read by `format: {csv: {address: "
           "1, length: 2, separator: space}}`, or `port: 2`"});
    }
  }

  const Options options_;
  LengthDoubt doubt_;
  uint64_t entries_ = 0, numbers_ = 0, further_ = 0;
  uint32_t further_line_ = 0;
  std::string first_number_;
};

// Whatever nothing else looks like is plain.
std::string recognise(std::string_view) {
  return "";
}

Read start(const Options& options, std::string_view /*beginning*/) {
  auto reader = std::make_shared<Reader>(options);
  return [reader](std::string_view part, ListDraft& list) { reader->read(part, list); };
}

}  // namespace plain

bool is_plain_entry(std::string_view line) {
  using namespace plain;
  line = trim(line);
  if (line.empty()) return true;
  const Line split = line_of(line);
  if (split.text.empty()) return split.outcome.kind != Outcome::bad;
  const EntryAndRest parts = parts_of(split.text);
  if (parts.why_bad != nullptr || !is_entry_word(parts.entry)) return false;
  std::string_view number;
  return look_behind(without_front(parts.behind), WEIR_DROP, number).kind != Outcome::bad;
}

// One entry a line: docs/use/policy.md, "Plain feeds".
extern const Format kPlainFormat;
const Format kPlainFormat = {"plain",
                             "an address, prefix, range or address:port a line; # and ; start a comment (netset, txt)",
                             plain::recognise, plain::start};

}  // namespace weir::control::feeds
