#include "control/sources/fleet/names.h"

#include <fmt/format.h>

namespace weir::control::fleet {

bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= 63 && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::optional<Names::Place> Names::entry_of(std::string_view key) const {
  const std::string prefix = entries();
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  const size_t end = key.find('/');  // names of lists hold none
  if (end == std::string_view::npos || !is_name(key.substr(0, end)) || end + 1 == key.size()) return std::nullopt;
  return Place{std::string(key.substr(0, end)), std::string(key.substr(end + 1))};
}

std::string Names::in_order(uint64_t number) {
  return fmt::format("{:012}", number);
}

}  // namespace weir::control::fleet
