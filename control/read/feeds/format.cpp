#include "control/read/feeds/format.h"

#include <algorithm>

#include "control/read/feeds/plain.h"

namespace weir::control::feeds {
namespace {

constexpr Format kFormats[] = {
    {"plain", "an address, prefix, range or address:port a line; # and ; start a comment", read_plain},
};

}  // namespace

std::span<const Format> formats() {
  return kFormats;
}

const Format* find_format(std::string_view name) {
  if (name == "auto") return &kFormats[0];
  const auto found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& f) { return f.name == name; });
  return found == std::end(kFormats) ? nullptr : found;
}

void add_bad_line(FeedReport& report, uint32_t line, std::string_view text, const char* reason) {
  constexpr size_t kSamples = 5, kShown = 80;
  report.bad++;
  if (report.samples.size() >= kSamples) return;
  std::string shown(text.substr(0, kShown));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  report.samples.push_back({line, std::move(shown), reason});
}

}  // namespace weir::control::feeds
