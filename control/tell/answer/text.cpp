#include "control/tell/answer/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <iterator>

#include "common/clock.h"

namespace weir::control {

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
  return duration(static_cast<uint64_t>(std::max<int64_t>(0, unix_now() - unix_s))) + " ago";
}

std::string plural(uint64_t n, const char* noun) {
  return fmt::format("{} {}{}", count(n), noun, n == 1 ? "" : "s");
}

std::string plural(uint64_t n, const char* singular, const char* several) {
  return fmt::format("{} {}", count(n), n == 1 ? singular : several);
}

std::string scaled(double per_second) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  for (; per_second >= 999.5 && unit + 1 < std::size(kUnits); unit++) per_second /= 1000;
  const int digits = unit == 0 ? (per_second < 9.95 && per_second != std::floor(per_second) ? 1 : 0)
                               : (per_second < 9.995   ? 2
                                  : per_second < 99.95 ? 1
                                                       : 0);
  const std::string value = fmt::format("{:.{}f}", per_second, digits);
  return unit == 0 ? value : value + " " + kUnits[unit];
}

}  // namespace weir::control
