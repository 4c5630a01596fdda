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

// The entry at the start of a line without comment and outer blanks: its first word, or up to three words when a hyphen
// makes them a range (`a - b`, `a -b`, `a- b`).
std::string_view entry_of(std::string_view line) {
  size_t end = word_length(line);
  const auto next_word = [&](size_t from) {
    while (from < line.size() && is_blank(line[from])) from++;
    return from;
  };
  const size_t second = next_word(end);
  const bool hyphen_ends_first = line[end - 1] == '-';
  const bool hyphen_begins_second = second < line.size() && line[second] == '-';
  if (line.substr(0, end - hyphen_ends_first).find('-') != std::string_view::npos) return line.substr(0, end);
  if (hyphen_ends_first) {
    end = second + word_length(line.substr(second));
  } else if (hyphen_begins_second) {
    const size_t last = next_word(second + 1);
    end = last + word_length(line.substr(last));
  }
  return line.substr(0, end);
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
  const EntryText parsed = parse_entry(entry_of(text));
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
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  list.v4.reserve(list.v4.size() + lines);  // untouched pages cost nothing when the feed turns out to be IPv6
  const uint64_t before = list.entries();
  uint32_t line = 0;  // fits: a feed is smaller than 4 GiB
  while (!text.empty()) {
    const void* newline = memchr(text.data(), '\n', text.size());
    const size_t length =
        newline == nullptr ? text.size() : static_cast<size_t>(static_cast<const char*>(newline) - text.data());
    const std::string_view one = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    line++;
    if (read_host_line(one, line, options, list)) continue;
    if (const char* reason = read_line(one, line, options, list)) add_bad_line(list.feed, line, trim(one), reason);
  }
  list.feed.lines += line;
  list.feed.entries += list.entries() - before;
}

}  // namespace weir::control::feeds
