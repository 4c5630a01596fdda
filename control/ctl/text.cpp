#include "control/ctl/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <ctime>

namespace weir::control::ctl {

std::string count(uint64_t n) {
  std::string text = std::to_string(n);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string bytes(uint64_t n) {
  if (n < 1024) return fmt::format("{} B", n);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(n) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); unit++) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string milliseconds(double ms) {
  if (ms >= 10'000) return fmt::format("{:.1f} s", ms / 1000);
  return ms >= 100 ? fmt::format("{:.0f} ms", ms)
         : ms >= 1 ? fmt::format("{:.1f} ms", ms)
                   : fmt::format("{:.2f} ms", ms);
}

std::string percent(double fraction) {
  return fraction == 0 ? "0 %" : fmt::format("{:.3g} %", fraction * 100);
}

std::string duration(uint64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

std::string age(int64_t unix_s) {
  if (unix_s == 0) return "never";
  return duration(static_cast<uint64_t>(std::max<int64_t>(0, time(nullptr) - unix_s))) + " ago";
}

std::string plural(uint64_t n, const char* noun) {
  return fmt::format("{} {}{}", count(n), noun, n == 1 ? "" : "s");
}

std::string plural(uint64_t n, const char* singular, const char* several) {
  return fmt::format("{} {}", count(n), n == 1 ? singular : several);
}

void Table::row(std::vector<std::string> cells) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  for (std::string& cell : cells) std::replace_if(cell.begin(), cell.end(), is_control, '?');
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
