#pragma once

#include <string_view>

namespace weir::control::feeds {

// What a file holds that is no list of lines.
struct Content {
  const char* what;  // as in "FILE is ...": "a zip archive", "an HTML page"
  const char* hint;  // the way out
  bool is_json = false;
};

// By how it begins (some kilobytes are enough). Null: nothing speaks against text.
const Content* content_of(std::string_view beginning);

}  // namespace weir::control::feeds
