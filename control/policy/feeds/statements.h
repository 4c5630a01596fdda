#pragma once

#include <string>
#include <string_view>

#include "control/policy/feeds/take.h"

// What readers of other programs' configurations share.
namespace weir::control::feeds {

// A backslash at a line's end joins the next line to it.
struct Joining {
  bool keeps_indent;    // of the next line
  bool joins_comments;  // a comment, too, goes on behind a backslash
};

// A statement whose last line has not come yet.
struct Unfinished {
  static constexpr size_t kMostBytes = size_t{256} << 10;
  std::string text;
  uint32_t line = 0;  // where it begins; 0: there is none
  bool is_too_long = false;
};

// Every statement of a part with the number of its first line; trimmed, without comments (#). An empty part is the end.
template <class ReadStatement>
void read_statements(std::string_view part, Joining joining, Unfinished& open, ListDraft& list, ReadStatement&& read) {
  const uint64_t before = list.entries();
  const auto finish = [&](std::string_view text, uint32_t line) {
    text = trim(text);
    if (text.empty() || text[0] == '#') return;
    const Outcome outcome = open.is_too_long ? Outcome("a statement of more than 256 KiB") : read(text, line);
    if (outcome.kind != Outcome::fine) add_outcome(outcome, list.feed, line, text);
  };
  const auto finish_open = [&] {
    finish(open.text, open.line);
    open = {};
  };
  if (part.empty() && open.line != 0) finish_open();
  auto number = static_cast<uint32_t>(list.feed.lines);  // fits: a feed is smaller than 4 GiB
  while (!part.empty()) {
    std::string_view line = next_line(part);
    number++;
    while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
    const bool is_first = open.line == 0;
    if (is_first || !joining.keeps_indent) line = trim(line);
    const bool is_comment = is_first && line.starts_with('#');
    const bool goes_on = line.ends_with('\\') && (!is_comment || joining.joins_comments);
    if (is_first && !goes_on) {
      finish(line, number);
      continue;
    }
    if (is_first) open.line = number;
    if (goes_on) line.remove_suffix(1);
    open.is_too_long |= open.text.size() + line.size() > Unfinished::kMostBytes;
    if (!open.is_too_long) open.text += line;
    if (!goes_on) finish_open();
  }
  list.feed.lines = number;
  list.feed.entries += list.entries() - before;
}

// recognise_lines() of the statements of a beginning.
std::string recognise_statements(std::string_view beginning, bool (*is_like)(std::string_view line),
                                 const char* phrase);

// `192.0.2.`, `192.0.2.*` and `192.0.2` -> 192.0.2.0/24. Empty: it is not one to three octets.
std::string network_of_octets(std::string_view text);

// Whether a text is a name rather than a broken address: it has a letter past `f`, or `@`.
bool is_name(std::string_view text);

// Whether the text has this JSON key.
inline bool has_key(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at > 0 && text[at - 1] == '"' && text.substr(at + key.size()).starts_with('"')) return true;
  }
  return false;
}

}  // namespace weir::control::feeds
