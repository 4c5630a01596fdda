#include "control/page/html.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

namespace weir::control::page {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

struct Character {
  char32_t code = 0;
  size_t bytes = 0;  // 0: it is no UTF-8
};

// RFC 3629: no longer form than needed, no surrogates, U+10FFFF at most.
Character first_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xc2 && first < 0xe0   ? 2
                       : (first & 0xf0) == 0xe0        ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  char32_t code = first & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; i++) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[bytes] || is_surrogate || code > 0x10ffff ? Character{} : Character{code, bytes};
}

bool turns_direction(char32_t code) {
  return code == 0x061c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

std::string_view reference_of(char32_t code) {
  switch (code) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return "";
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string all;
  all.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_of(text);
    const std::string_view reference = reference_of(next.code);
    if (next.bytes == 0 || turns_direction(next.code) || (is_control(next.code) && next.code != '\n')) {
      all += kReplacement;
    } else {
      all += reference.empty() ? text.substr(0, next.bytes) : reference;
    }
    text.remove_prefix(next.bytes == 0 ? 1 : next.bytes);
  }
  return all;
}

Html& Html::operator<<(Text text) {
  text_ += escaped(text.text);
  return *this;
}

Html& Html::tenths(double number) {
  const double rounded = std::round(number * 10) / 10;
  text_ += rounded == std::round(rounded) ? fmt::format("{:.0f}", rounded) : fmt::format("{:.1f}", rounded);
  return *this;
}

}  // namespace weir::control::page
