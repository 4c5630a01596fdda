#pragma once

#include <cstdint>
#include <optional>

namespace weir::control {

// What a change of the policy may do to the traffic of late (docs/operate/plan.md).
struct PlanSettings {
  std::optional<double> max_newly_dropped, max_newly_passed;  // shares of the packets, 0 to 1; empty: no limit
  uint32_t samples = 65536;                                   // of recent traffic that controld keeps; 0: none
  uint32_t recent_s = 900;                                    // how long it keeps them
  bool operator==(const PlanSettings&) const = default;
};

}  // namespace weir::control
