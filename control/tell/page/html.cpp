#include "control/tell/page/html.h"

#include <fmt/format.h>

#include <cmath>

#include "common/printable.h"

namespace weir::control::page {

namespace {

std::string_view reference_of(char c) {
  switch (c) {
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
  for (const char c : printable_lines(text)) {
    const std::string_view reference = reference_of(c);
    reference.empty() ? all += c : all += reference;
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
