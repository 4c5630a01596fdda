#include "control/ctl/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "common/printable.h"

namespace weir::control::ctl {

std::string one_line(std::string text) {
  for (size_t at = 0; (at = text.find("\nhint: ", at)) != std::string::npos;) text.replace(at, 7, "; ");
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void Table::row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); c++) {
    size_t width = std::string_view(columns_[c].title).size();
    for (const auto& row : rows_) width = std::max(width, row[c].size());
    widths.push_back(width);
  }
  std::string all;
  const auto line = [&](const auto& cell) {
    std::string text;
    for (size_t c = 0; c < columns_.size(); c++) {
      const bool right = columns_[c].align == Align::right;
      text += right ? fmt::format("{:>{}}  ", cell(c), widths[c]) : fmt::format("{:<{}}  ", cell(c), widths[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    all += text + "\n";
  };
  line([&](size_t c) { return std::string(columns_[c].title); });
  for (const auto& row : rows_) line([&](size_t c) { return row[c]; });
  return all;
}

}  // namespace weir::control::ctl
