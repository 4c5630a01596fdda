// The reader of plain feeds before it told second words, exceptions and remarks apart, frozen: what it costs to read
// more carefully is measured beside it.
#include "tests/bench/plain_before.h"

#include <algorithm>

#include "control/policy/feeds/take.h"

namespace weir::bench {
namespace {

using namespace control;
using namespace control::feeds;

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

void read_plain(std::string_view text, const Options& options, ListDraft& list) {
  const uint64_t before = list.entries();
  auto line = static_cast<uint32_t>(list.feed.lines);  // fits: a feed is smaller than 4 GiB
  Entry<Ipv4> host = {0, 0, 0, 0, options.directions, options.source};
  while (!text.empty()) {
    line++;
    if (const char* next = read_host_line(text.data(), text.data() + text.size(), host.first); next != nullptr) {
      host.last = host.first;
      host.line = line;
      list.v4.push_back(host);
      text.remove_prefix(static_cast<size_t>(next - text.data()));
      continue;
    }
    const std::string_view whole = next_line(text);
    const std::string_view one = trim(whole.substr(0, whole.find_first_of("#;")));
    if (one.empty()) continue;
    if (const char* reason = take(entry_of(one), {line}, options, list)) {
      add_bad_line(list.feed, line, trim(whole), reason);
    }
  }
  list.feed.lines = line;
  list.feed.entries += list.entries() - before;
}

std::string recognise_none(std::string_view /*beginning*/) {
  return "";
}

Read start_plain(const Options& options, std::string_view /*beginning*/) {
  return [options](std::string_view part, ListDraft& list) { read_plain(part, options, list); };
}

}  // namespace

const Format& plain_before() {
  static const Format kFormat = {"plain-before", "plain, as it was", recognise_none, start_plain};
  return kFormat;
}

}  // namespace weir::bench
