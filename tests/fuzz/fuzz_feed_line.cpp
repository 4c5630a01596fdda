// Any bytes as a line of a feed, beside any line with names: no crash, and what is told of it is short, and the same
// when it is asked again.
#include <cstdlib>

#include "control/enforce/past/feed_line.h"

namespace {

void require(bool holds) {
  if (!holds) abort();
}

void require_shown(const std::string& text) {
  require(text.size() <= 400);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir::control;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  const std::string_view names = text.substr(0, end),
                         line = end == std::string_view::npos ? text : text.substr(end + 1);
  for (const char* format : {"plain", "spamhaus", "csv", "json", "ipset"}) {
    const FeedLine told = understand_feed_line(line, format, names);
    require_shown(told.text);
    require_shown(told.comment);
    require(told.columns.size() <= 32);
    for (const FeedColumn& column : told.columns) {
      require_shown(column.name);
      require_shown(column.value);
    }
    const FeedLine again = understand_feed_line(line, format, names);
    require(again.text == told.text && again.comment == told.comment && again.columns.size() == told.columns.size());
  }
  return 0;
}
