#include "control/policy/feeds/format.h"

#include <algorithm>

#include "control/policy/feeds/structures.h"

namespace weir::control::feeds {

// In the order of formats().
#define WEIR_FEED_FORMATS(row)                                                                                         \
  row(Spamhaus) row(Stix) row(MispEvent) row(Aws) row(Gcp) row(Azure) row(Cloudflare) row(Fastly) row(Github)          \
      row(Oracle) row(CrowdSec) row(Misp) row(JsonLines) row(Json) row(Rir) row(Suricata) row(Mikrotik) row(HostsDeny) \
          row(Rbldnsd) row(Ipset) row(Nft) row(Nginx) row(IpRoute) row(Zeek) row(P2p) row(Dat) row(Access) row(Iprep)  \
              row(Csv) row(Plain)

#define WEIR_DECLARE_FORMAT(name) extern const Format k##name##Format;
WEIR_FEED_FORMATS(WEIR_DECLARE_FORMAT)
#undef WEIR_DECLARE_FORMAT

namespace {

#define WEIR_FORMAT_ROW(name) &k##name##Format,
constexpr const Format* kFormats[] = {WEIR_FEED_FORMATS(WEIR_FORMAT_ROW)};
#undef WEIR_FORMAT_ROW

}  // namespace

std::span<const Format* const> formats() {
  return kFormats;
}

const Format& plain_format() {
  return kPlainFormat;
}

const Format* find_format(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format* f) { return f->name == name; });
  return found == std::end(kFormats) ? nullptr : *found;
}

Recognised recognise(std::string_view beginning) {
  for (const Format* format : kFormats) {
    // Formats of words and names take lines of structures; those behind it take whatever has columns or lines.
    const bool is_asked = format == &kIpsetFormat || format == &kAccessFormat;
    if (is_asked) {
      const Share share = format == &kIpsetFormat ? Share::most : Share::entries;
      if (auto fault = structure_fault(beginning, share)) {
        return {&kPlainFormat, "", std::move(fault)};
      }
    }
    if (std::string why = format->recognise(beginning); !why.empty()) return {format, std::move(why)};
  }
  return {&kPlainFormat, "it looks like no other format"};
}

std::string_view find_setting(std::string_view settings, std::string_view name) {
  while (!settings.empty()) {
    const size_t end = std::min(settings.find(','), settings.size());
    const std::string_view one = settings.substr(0, end);
    settings.remove_prefix(std::min(end + 1, settings.size()));
    const size_t equals = one.find('=');
    if (equals != std::string_view::npos && one.substr(0, equals) == name) return one.substr(equals + 1);
  }
  return {};
}

void read_text(const Format& format, std::string_view text, const Options& options, ListDraft& list) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const Read read = format.start(options, text);
  if (!text.empty()) read(text, list);
  read({}, list);
}

}  // namespace weir::control::feeds
