// Any bytes as text of strangers: what printers make of it is UTF-8 without a control, a C1 or a bidi character, and a
// text adds no line of its own.
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "common/diagnostic.h"
#include "common/log/log.h"
#include "common/printable.h"
#include "control/base/json/json.h"
#include "control/tell/answer/parts.h"
#include "control/tell/metrics/families.h"
#include "control/tell/page/html.h"

using namespace weir;

namespace {

void require(bool holds) {
  if (!holds) abort();
}

// Shares no code with common/printable.cpp: forbidden characters as their bytes.
void require_plain(std::string_view text, size_t lines) {
  size_t newlines = 0;
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
    const unsigned first = byte(i), second = byte(i + 1), third = byte(i + 2);
    newlines += first == '\n' ? 1 : 0;
    require(first >= 0x20 || first == '\n' || first == '\t');
    require(first != 0x7f);
    require(!(first == 0xc2 && second < 0xa0));                                     // C1
    require(!(first == 0xd8 && second == 0x9c));                                    // U+061C
    require(!(first == 0xe2 && second == 0x80 && (third | 1) == 0x8f));             // U+200E, U+200F
    require(!(first == 0xe2 && second == 0x80 && third >= 0xa8 && third <= 0xae));  // U+2028 to U+202E
    require(!(first == 0xe2 && second == 0x81 && third >= 0xa6 && third <= 0xa9));  // U+2066 to U+2069
    const size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    require(first < 0x80 || (first >= 0xc2 && first <= 0xf4));
    for (size_t at = 1; at < size; at++) require((byte(i + at) & 0xc0) == 0x80);
    i += size;
  }
  require(newlines == lines);
}

size_t lines_in(const std::string& text) {
  size_t lines = 0;
  for (const char c : text) lines += c == '\n' ? 1 : 0;
  return lines;
}

std::string printed(const std::string& text) {
  char* bytes = nullptr;
  size_t size = 0;
  FILE* file = open_memstream(&bytes, &size);
  require(file != nullptr);
  print_text(file, text);
  (void)fclose(file);
  std::string all(bytes, size);
  free(bytes);
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  require_plain(printable(text), 0);
  require_plain(printable_lines(text), lines_in(text));
  require(printable(printable(text)) == printable(text));
  require_plain(printed(text), lines_in(text));
  require_plain(format(Diagnostic{Severity::error, {text, 7, 2}, text, text, text}), text.empty() ? 1 : 3);
  require_plain(log::text_of({log::Level::info, "an event", {{"text", text}, {"and", text}}}), 0);
  require_plain(control::page::escaped(text), lines_in(text));
  require_plain(control::write_json(control::TargetOutcome{text, true, text}).line(), 1);
  control::metrics::Builder builder;
  builder.gauge("one", "help", {{"label", text}}, 1);
  require_plain(builder.take().front().metric.front().label.front().value, 0);
  for (size_t most = 0; most < 6; most++) require(shortened(text, most).size() <= most);
  return 0;
}
