#include "control/read/feeds/plain.h"

#include <algorithm>
#include <cstring>

#include "control/read/feeds/entry_text.h"

namespace weir::control::feeds {
namespace {

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}  // the ASCII ones; LF never gets here

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

size_t word_length(std::string_view text) {
  return static_cast<size_t>(std::find_if(text.begin(), text.end(), is_blank) - text.begin());
}

// The longest beginning that has only letters of addresses.
std::string_view address_letters(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '.' || c == ':';
  };
  return text.substr(0, static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_letter) - text.begin()));
}

bool is_address(std::string_view text) {
  return parse_ipv4(text) || parse_ipv6(text);
}

// Whether what begins with these letters was meant as an address of the family of `first`, and is none: 192.0.2.999.
bool is_broken_address(std::string_view letters, std::string_view first) {
  const auto count = [](std::string_view text, char c) { return std::count(text.begin(), text.end(), c); };
  if (count(first, ':') > 1 && first[0] != '[') return count(letters, ':') > 1;
  return count(letters, '.') > 2;
}

// The entry at the start of a line without comment and outer blanks: its first word, or up to three words when a hyphen
// makes them a range (`a - b`, `a -b`, `a- b`). A hyphen that no address follows begins a remark; one that a broken
// address follows makes a bad line, which is returned whole.
std::string_view entry_of(std::string_view line) {
  const size_t first_end = word_length(line);
  const auto skip_blanks = [&](size_t from) {
    while (from < line.size() && is_blank(line[from])) from++;
    return from;
  };
  size_t hyphen = line.substr(0, first_end).find('-');
  if (hyphen == std::string_view::npos) {
    hyphen = skip_blanks(first_end);
    if (hyphen == line.size() || line[hyphen] != '-') return line.substr(0, first_end);
  }
  const std::string_view first = line.substr(0, std::min(hyphen, first_end));
  const size_t second = skip_blanks(hyphen + 1);
  const std::string_view word = line.substr(second, word_length(line.substr(second)));
  const std::string_view letters = address_letters(word);
  if (!is_address(letters)) return is_broken_address(letters, first) ? line.substr(0, second + word.size()) : first;
  const std::string_view rest = word.substr(letters.size());
  const auto begins_address = [&](std::string_view text) {
    const std::string_view more = address_letters(text);
    return is_address(more) || is_broken_address(more, first);
  };
  const bool is_remark = rest.starts_with('-') && !begins_address(rest.substr(1));
  return line.substr(0, second + (is_remark ? letters.size() : word.size()));
}

constexpr const char* kAnyRefused = "matches every address: needs allow_any";

template <class Addr>
const char* append(const ParsedEntry<Addr>& parsed, uint32_t line, const Options& options,
                   std::vector<Entry<Addr>>& entries) {
  if (parsed.is_any && !options.allow_any) return kAnyRefused;
  entries.push_back({parsed.first, parsed.last, line, parsed.port, options.directions, 1});
  return nullptr;
}

// Returns why the line is bad; nullptr: it is an entry, or there is none in it.
const char* read_line(std::string_view text, uint32_t line, const Options& options, ListDraft& list) {
  text = trim(text.substr(0, text.find_first_of("#;")));
  if (text.empty()) return nullptr;
  const EntryText parsed = parse_entry(entry_of(text), LeadingZeros::decimal);
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed)) return append(*v4, line, options, list.v4);
  if (const auto* v6 = std::get_if<ParsedEntry<Ipv6>>(&parsed)) return append(*v6, line, options, list.v6);
  return std::get<EntryError>(parsed).reason;
}

// Most lines of most feeds are one IPv4 address and nothing else: read without looking for blanks, comments or words.
bool read_host_line(std::string_view text, uint32_t line, const Options& options, ListDraft& list) {
  constexpr size_t kLongest = sizeof "255.255.255.255\r" - 1;
  if (text.size() > kLongest) return false;
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  const auto address = parse_ipv4(text);
  if (address) list.v4.push_back({*address, *address, line, 0, options.directions, 1});
  return address.has_value();
}

}  // namespace

void read_plain(std::string_view text, const Options& options, ListDraft& list) {
  if (list.feed.lines == 0 && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const uint64_t before = list.entries();
  auto line = static_cast<uint32_t>(list.feed.lines);  // fits: a feed is smaller than 4 GiB
  while (!text.empty()) {
    if (text[0] == '\n') {
      line++;
      text.remove_prefix(1);
      continue;
    }
    const void* newline = memchr(text.data(), '\n', text.size());
    const size_t length =
        newline == nullptr ? text.size() : static_cast<size_t>(static_cast<const char*>(newline) - text.data());
    const std::string_view one = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    line++;
    if (read_host_line(one, line, options, list)) continue;
    if (const char* reason = read_line(one, line, options, list)) add_bad_line(list.feed, line, trim(one), reason);
  }
  list.feed.lines = line;
  list.feed.entries += list.entries() - before;
}

}  // namespace weir::control::feeds
