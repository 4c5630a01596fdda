#pragma once

#include <string_view>

namespace weir::log {

// The last line of the terminal, which events that are written push away. Empty: it goes.
void draw_terminal_line(std::string_view text);

}  // namespace weir::log
