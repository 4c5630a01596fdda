#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "common/printable.h"
#include "control/policy/feeds/entry_text.h"
#include "control/policy/feeds/format.h"

// What the readers of all formats do with what they find in a line or a record.
namespace weir::control::feeds {

// What became of a line.
struct Outcome {
  enum Kind : uint8_t { fine, bad, skipped };
  Kind kind = fine;
  const char* why = nullptr;

  Outcome() = default;
  Outcome(const char* why_bad) : kind(why_bad == nullptr ? fine : bad), why(why_bad) {}
  static Outcome skip(const char* why) {
    Outcome outcome(why);
    outcome.kind = skipped;
    return outcome;
  }
};

// Unless there are enough of its kind.
void keep_sample(FeedReport& report, LineSample sample);
// Counts it, and keeps the first ones as samples (shortened).
void add_bad_line(FeedReport& report, uint32_t line, std::string_view text, const char* reason);
void add_skipped_line(FeedReport& report, uint32_t line, std::string_view text, const char* reason);
void add_outcome(const Outcome& outcome, FeedReport& report, uint32_t line, std::string_view text);

// Where an entry is written, and until when it counts.
struct At {
  uint32_t line;
  uint32_t expires = kNever;
};

// Appends the entry that the text says. Returns why it says none; null: it is there.
const char* take(std::string_view text, At at, const Options& options, ListDraft& list);
// Of a text in parts: an address and its port; an address and its prefix length or netmask; both ends of a range.
const char* take_port(std::string_view address, std::string_view port, At at, const Options& options, ListDraft& list);
const char* take_prefix(std::string_view address, std::string_view length, At at, const Options& options,
                        ListDraft& list);
// Octets with leading zeros are decimal here: `001.002.003.004`.
const char* take_range(std::string_view first, std::string_view last, At at, const Options& options, ListDraft& list);

// What a row or an object says in parts. Empty: it has no such part.
struct PartTexts {
  std::string_view address, last, port, length;
};
const char* take_parts(const PartTexts& parts, At at, const Options& options, ListDraft& list);

// Unix seconds of a timeout that counts from when the feed was written.
uint32_t expires_after(uint64_t seconds, const Options& options);
// 1h30m, 3h59m59.5s, 2d, 250ms, 90: seconds. Empty: it is none.
std::optional<uint64_t> duration_seconds(std::string_view text);

// --- text ---

inline bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');  // the ASCII ones
}

inline std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// The first word, taken off the text; empty: there is none.
std::string_view next_word(std::string_view& text);
bool is_entry(std::string_view text);            // all of it: an address, a prefix, a range, with a port or without
bool has_address_inside(std::string_view text);  // among other text, or alone
bool is_number(std::string_view text);
bool is_length(std::string_view text);  // a number of at most three digits, as in `24` or `/24`
std::string lower(std::string_view text);

// The next line, taken off the text, without its LF.
inline std::string_view next_line(std::string_view& text) {
  const void* newline = memchr(text.data(), '\n', text.size());
  const size_t length =
      newline == nullptr ? text.size() : static_cast<size_t>(static_cast<const char*>(newline) - text.data());
  const std::string_view line = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return line;
}

// Every line of a part, trimmed, with its number: read_line(line, number) says what became of it.
template <class ReadLine>
void read_lines(std::string_view part, ListDraft& list, ReadLine&& read_line) {
  const uint64_t before = list.entries();
  auto number = static_cast<uint32_t>(list.feed.lines);  // fits: a feed is smaller than 4 GiB
  while (!part.empty()) {
    const std::string_view line = trim(next_line(part));
    number++;
    if (line.empty()) continue;
    const Outcome outcome = read_line(line, number);
    if (outcome.kind != Outcome::fine) add_outcome(outcome, list.feed, number, line);
  }
  list.feed.lines = number;
  list.feed.entries += list.entries() - before;
}

// Why a feed is of a format: "line N PHRASE" of the first line that `is_like` says yes to, if lines that are not plain
// entries are like that more often than not. Lines that begin with # or ; are not asked, nor is one that is cut off.
// decides: whether one line is enough, whatever the others are; null: none is. most_lines: that are asked.
std::string recognise_lines(std::string_view beginning, bool (*is_like)(std::string_view line), const char* phrase,
                            bool (*decides)(std::string_view line) = nullptr, unsigned most_lines = 32);

}  // namespace weir::control::feeds
