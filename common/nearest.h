#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weir {

// The name that was probably meant: two letters wrong, or a third of a long word; else the only one that begins so.
// Empty: none is near.
std::string_view nearest_name(std::string_view wrong, std::span<const std::string_view> names);

}  // namespace weir
