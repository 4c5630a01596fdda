#include "control/compile/preview/over_limit.h"

#include <fmt/format.h>

namespace weir::control {

std::string OverLimit::text() const {
  const char* what = limit == "max_newly_dropped" ? "dropped" : "passed";
  return fmt::format("{:.3g} % of the recent packets ({:.3g} to {:.3g} %) would newly be {}: plan.{} is {:.3g} %",
                     100 * would_be.value, 100 * would_be.low, 100 * would_be.high, what, limit, 100 * allowed);
}

std::vector<OverLimit> over_limits(const PlanSettings& settings, const Radius& radius) {
  std::vector<OverLimit> over;
  if (radius.samples == 0) return over;
  const auto ask = [&](const char* limit, const std::optional<double>& allowed, const Share& would_be) {
    if (allowed && would_be.value > *allowed) over.push_back({limit, *allowed, would_be});
  };
  ask("max_newly_dropped", settings.max_newly_dropped, radius.newly_dropped);
  ask("max_newly_passed", settings.max_newly_passed, radius.newly_passed);
  return over;
}

}  // namespace weir::control
