#include "control/enforce/capture/pace.h"

#include <algorithm>

namespace weir::control {

// Within a factor of two nothing changes: the share of what is told should not flutter.
void Pace::take(uint64_t samples, double seconds) {
  if (seconds <= 0) return;
  constexpr double kLeastChange = 2, kMostDown = 8;  // down in steps: a pause in a flood is short
  const double too_much = static_cast<double>(samples) / seconds / kWantedPerSecond;
  if (too_much > kLeastChange) {
    one_in_ = static_cast<uint32_t>(std::min<double>(one_in_ * too_much, kMost));
  } else if (too_much < 1 / kLeastChange) {
    one_in_ = std::max(1u, static_cast<uint32_t>(one_in_ * std::max(too_much, 1 / kMostDown)));
  }
}

}  // namespace weir::control
