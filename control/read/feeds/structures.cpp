#include "control/read/feeds/structures.h"

namespace weir::control::feeds {

std::span<const Structure> structures() {
  return {};
}

std::optional<FeedFault> structure_fault(std::string_view) {
  return std::nullopt;
}

}  // namespace weir::control::feeds
