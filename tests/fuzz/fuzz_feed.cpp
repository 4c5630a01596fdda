// Any bytes as a feed, in every format: no crash, every line accounted for, and what was read is sound.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "control/read/feeds/format.h"

namespace {

void require(bool holds) {
  if (!holds) abort();
}

template <class Addr>
void require_entries(const std::vector<weir::control::Entry<Addr>>& entries, uint64_t lines, bool allow_any) {
  for (const auto& entry : entries) {
    require(entry.first <= entry.last);
    require(entry.port == 0 || entry.first == entry.last);
    require(entry.line >= 1 && entry.line <= lines && entry.source == 1 && entry.directions == WEIR_AS_DESTINATION);
    require(allow_any || entry.first != 0 || entry.last != static_cast<Addr>(~Addr{0}));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool allow_any = size % 2 == 0;
  for (const weir::control::feeds::Format& format : weir::control::feeds::formats()) {
    weir::control::ListDraft list;
    format.read(text, {.directions = WEIR_AS_DESTINATION, .allow_any = allow_any}, list);
    const auto& feed = list.feed;
    require(feed.lines <= size && feed.entries == list.entries());
    require(feed.samples.size() == std::min<uint64_t>(feed.bad, 5));
    for (const auto& bad : feed.samples) {
      require(bad.line <= feed.lines && bad.text.size() <= 80 && !bad.reason.empty());
    }
    require_entries(list.v4, feed.lines, allow_any);
    require_entries(list.v6, feed.lines, allow_any);
  }
  return 0;
}
