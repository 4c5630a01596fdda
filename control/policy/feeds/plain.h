#pragma once

#include <string_view>

namespace weir::control::feeds {

// Whether a plain feed may have this line (trimmed, and more than a comment): what is in doubt is plain.
bool is_plain_entry(std::string_view line);

}  // namespace weir::control::feeds
