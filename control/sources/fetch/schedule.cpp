#include "control/sources/fetch/schedule.h"

#include <algorithm>
#include <cmath>

namespace weir::control {
namespace {

constexpr double kJitter = 0.1;
constexpr uint32_t kMostDoublings = 20;

int64_t longest_retry(uint64_t every_s) {
  return std::max(kMostRetry_s, static_cast<int64_t>(every_s));
}

}  // namespace

int64_t next_after_success(int64_t now, uint64_t every_s, double random) {
  const double factor = 1 - kJitter + 2 * kJitter * random;
  return now + std::max<int64_t>(1, std::llround(static_cast<double>(every_s) * factor));
}

int64_t next_after_failure(int64_t now, uint64_t every_s, uint32_t failures, uint64_t retry_after_s, double random) {
  const uint32_t doublings = std::min(std::max(failures, 1u) - 1, kMostDoublings);
  const int64_t longest = std::min(kFirstRetry_s << doublings, longest_retry(every_s));
  const int64_t wait = std::llround(static_cast<double>(longest) * (0.5 + 0.5 * random));
  const auto wanted = static_cast<int64_t>(std::min<uint64_t>(retry_after_s, kMostRetryAfter_s));
  return now + std::max(wait, wanted);
}

int64_t next_of(const FetchState& state, int64_t now, uint64_t every_s) {
  const int64_t furthest = std::max(kMostRetryAfter_s, 2 * longest_retry(every_s));
  return state.next_at > now + furthest ? now : std::max(state.next_at, now);
}

}  // namespace weir::control
