#pragma once

#include <optional>
#include <string_view>

#include "control/policy/model/feed.h"

namespace weir::control::feeds {

// What a file holds that is no list of lines.
struct Content {
  const char* what;  // as in "FILE is ...": "a zip archive", "an HTML page"
  const char* hint;  // the way out
  bool is_json = false;
};

// By how it begins (some kilobytes are enough). Null: nothing speaks against text.
const Content* content_of(std::string_view beginning);

// A short text with at most three entries may be an error answer, in words of HTTP or in prose. Its
// entries are addresses of whoever asked. Empty: it says nothing of the kind. JSON says so itself: json_records.h.
std::optional<FeedFault> error_answer(std::string_view text);

}  // namespace weir::control::feeds
