#include "control/policy/model/time_text.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <utility>

namespace weir::control {
namespace {

constexpr int64_t kMinute = 60, kHour = 3600, kDay = 86400;

// Takes text apart from its front. After a failure everything fails.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  int64_t digits(size_t count) {
    int64_t value = 0;
    for (size_t i = 0; i < count; i++) {
      const char c = i < text_.size() ? text_[i] : ' ';
      if (c < '0' || c > '9') return fail();
      value = value * 10 + (c - '0');
    }
    text_.remove_prefix(count);
    return value;
  }
  int64_t digits(size_t count, int64_t least, int64_t most) {
    const int64_t value = digits(count);
    return value < least || value > most ? fail() : value;
  }
  // One of these letters.
  char letter(std::string_view letters) {
    if (text_.empty() || letters.find(text_[0]) == std::string_view::npos) return static_cast<char>(fail());
    const char c = text_[0];
    text_.remove_prefix(1);
    return c;
  }
  bool begins_with(char c) const { return text_.starts_with(c); }
  void skip_digits() { text_.remove_prefix(std::min(text_.find_first_not_of("0123456789"), text_.size())); }
  bool whole() const { return good_ && text_.empty(); }

 private:
  int64_t fail() {
    good_ = false;
    text_ = {};
    return 0;
  }
  std::string_view text_;
  bool good_ = true;
};

}  // namespace

std::optional<uint32_t> parse_duration(std::string_view text) {
  constexpr std::pair<char, uint64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
  uint64_t seconds = 0;
  while (!text.empty()) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value > UINT32_MAX) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty() && seconds != 0) return std::nullopt;  // 1h30: thirty of what?
    uint64_t unit = 1;
    if (!text.empty()) {
      const auto* named = std::find_if(std::begin(kUnits), std::end(kUnits),
                                       [&](const auto& each) { return each.first == text.front(); });
      if (named == std::end(kUnits)) return std::nullopt;
      unit = named->second;
      text.remove_prefix(1);
    }
    seconds += value * unit;
    if (seconds > UINT32_MAX) return std::nullopt;
  }
  if (seconds == 0) return std::nullopt;
  return static_cast<uint32_t>(seconds);
}

// RFC 3339, section 5.6: date-time.
std::optional<uint32_t> parse_time(std::string_view text) {
  Reader reader(text);
  const int64_t year = reader.digits(4);
  reader.letter("-");
  const int64_t month = reader.digits(2, 1, 12);
  reader.letter("-");
  const int64_t day = reader.digits(2, 1, 31);
  reader.letter("Tt");
  const int64_t hour = reader.digits(2, 0, 23);
  reader.letter(":");
  const int64_t minute = reader.digits(2, 0, 59);
  reader.letter(":");
  const int64_t second = reader.digits(2, 0, 60);
  if (reader.begins_with('.')) {
    reader.letter(".");
    reader.digits(1);
    reader.skip_digits();
  }
  const char zone = reader.letter("Zz+-");
  int64_t offset = 0;
  if (zone == '+' || zone == '-') {
    offset = reader.digits(2, 0, 23) * kHour;
    reader.letter(":");
    offset += reader.digits(2, 0, 59) * kMinute;
    if (zone == '-') offset = -offset;
  }
  if (!reader.whole()) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const int64_t unix_s = days * kDay + hour * kHour + minute * kMinute + second - offset;
  if (second == 60 && unix_s % kDay != 0) return std::nullopt;  // leap seconds end a day of UTC
  return static_cast<uint32_t>(std::clamp<int64_t>(unix_s, 0, kNever));
}

std::string time_text(uint32_t unix_s) {
  const std::chrono::sys_days day(std::chrono::days(unix_s / kDay));
  const std::chrono::year_month_day date(day);
  const auto rest = static_cast<unsigned>(unix_s % kDay);
  char text[32];
  snprintf(text, sizeof text, "%04d-%02u-%02uT%02u:%02u:%02uZ", static_cast<int>(date.year()),
           static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), rest / 3600, rest / 60 % 60,
           rest % 60);
  return text;
}

}  // namespace weir::control
