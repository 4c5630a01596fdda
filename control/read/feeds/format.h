#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "control/model/policy.h"

// Feed formats. A new one is a file beside this one and a row in format.cpp.
namespace weir::control::feeds {

struct Options {
  uint8_t directions = WEIR_AS_SOURCE;  // of every entry: the list's `match`
  bool allow_any = false;               // /0 is an entry, not a bad line
};

struct Format {
  const char* name;
  const char* what;  // one line for people
  // Appends the entries of a feed to list.v4 and list.v6 and fills list.feed (all but its path). Any bytes are a feed:
  // what is not understood is a bad line. A large feed comes in parts, each of whole lines; list.feed.lines says how
  // many there were before.
  void (*read)(std::string_view text, const Options& options, ListDraft& list);
  bool is_lines = true;  // of text; what else a file may be (control/read/feed_content.h) is refused
};

std::span<const Format> formats();

// By name; `auto` is the first format. nullptr: there is no such format.
const Format* find_format(std::string_view name);

// Counts one bad line, keeps the first ones as samples (shortened, and in printable ASCII: feeds are anybody's bytes).
void add_bad_line(FeedReport& report, uint32_t line, std::string_view text, const char* reason);

}  // namespace weir::control::feeds
