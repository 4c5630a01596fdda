#include "control/ctl/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "common/printable.h"
#include "control/ctl/line/out.h"

namespace weir::control::ctl {

namespace {

// Takes as much of the text as a line of this width holds, up to a blank or behind a comma or slash where there is one.
std::string take_line(std::string& text, size_t width) {
  if (text.size() <= width) return std::exchange(text, "");
  size_t end = text.rfind(' ', width);
  if (end == std::string::npos || end == 0) end = text.find_last_of(",/", width - 1) + 1;
  if (end == 0 || end > width) end = width;
  std::string line = text.substr(0, end);
  text.erase(0, end);
  text.erase(0, text.find_first_not_of(' '));
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string one_line(std::string text) {
  for (size_t at = 0; (at = text.find("\nhint: ", at)) != std::string::npos;) text.replace(at, 7, "; ");
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void Table::row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

size_t Table::width_of(size_t column) const {
  size_t width = std::string_view(columns_[column].title).size();
  for (const auto& row : rows_) width = std::max(width, row[column].size());
  return width;
}

// Some row has more than a zero or a dash there.
bool Table::says_something(size_t column) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
    const std::string& cell = row[column];
    return !cell.empty() && cell != "0" && cell != "-";
  });
}

std::string Table::text() const {
  return text(columns_to_print());
}

std::string Table::text(size_t most_columns) const {
  constexpr size_t kBetween = 2, kLeastFolded = 16;
  std::vector<size_t> shown, widths;  // numbers of columns, and the width of each
  const auto too_wide = [&] {
    size_t all = 0;
    for (const size_t width : widths) all += width + kBetween;
    const size_t most = most_columns + kBetween;
    return most_columns == 0 || all <= most ? 0 : all - most;
  };
  for (size_t c = 0; c < columns_.size(); c++) {
    shown.push_back(c);
    widths.push_back(width_of(c));
  }
  std::vector<std::string> left_out;
  const auto leave_out = [&](size_t at) {
    left_out.emplace_back(columns_[shown[at]].title);
    shown.erase(shown.begin() + static_cast<ptrdiff_t>(at));
    widths.erase(widths.begin() + static_cast<ptrdiff_t>(at));
  };
  for (size_t at = shown.size(); at-- > 1 && too_wide() > 0;) {
    if (!says_something(shown[at])) leave_out(at);
  }
  while (too_wide() > 0) {
    size_t widest = shown.size();  // of those whose text can be folded
    for (size_t at = 0; at < shown.size(); at++) {
      const bool can_fold = columns_[shown[at]].align == Align::left && widths[at] > kLeastFolded;
      if (can_fold && (widest == shown.size() || widths[at] > widths[widest])) widest = at;
    }
    if (widest < shown.size()) {
      widths[widest] -= std::min(too_wide(), widths[widest] - kLeastFolded);
    } else if (shown.size() > 1) {
      leave_out(shown.size() - 1);
    } else {
      break;
    }
  }

  std::string all;
  const auto lines_of = [&](const auto& cell) {
    std::vector<std::string> rest;
    for (const size_t c : shown) rest.push_back(cell(c));
    do {
      std::string line;
      for (size_t at = 0; at < shown.size(); at++) {
        const std::string part = take_line(rest[at], widths[at]);
        const bool right = columns_[shown[at]].align == Align::right;
        line += right ? fmt::format("{:>{}}  ", part, widths[at]) : fmt::format("{:<{}}  ", part, widths[at]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      all += line + "\n";
    } while (std::any_of(rest.begin(), rest.end(), [](const std::string& text) { return !text.empty(); }));
  };
  lines_of([&](size_t c) { return std::string(columns_[c].title); });
  for (const auto& row : rows_) lines_of([&](size_t c) { return row[c]; });
  std::erase(left_out, "");
  if (!left_out.empty()) {
    std::reverse(left_out.begin(), left_out.end());
    all += fmt::format("(left out for want of room: {}; --wide shows all)\n", fmt::join(left_out, ", "));
  }
  return all;
}

}  // namespace weir::control::ctl
