#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Times as people write them (RFC 3339) and as packets are compared with (Unix seconds in 32 bits).
namespace weir::control {

constexpr uint32_t kNever = UINT32_MAX;  // of an entry without `expires`; also of times later than 2106

// 2026-12-01T00:00:00Z, 2026-12-01t01:00:00.25+01:00: date, time of day, then Z or an offset, nothing around them.
// Fractions of a second are dropped; times before 1970 are 0, those past 32 bits kNever. Empty: it is no such time.
std::optional<uint32_t> parse_time(std::string_view text);

// How long: 90s, 10m, 1h30m, 7d, 2w; a number alone is seconds. Empty: it is no such time, or 0, or past 32 bits.
std::optional<uint32_t> parse_duration(std::string_view text);

// 2026-12-01T00:00:00Z
std::string time_text(uint32_t unix_s);

}  // namespace weir::control
