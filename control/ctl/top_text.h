#pragma once

#include <string>

#include "control/ctl/top_interval.h"

// An interval as people read it.
namespace weir::control::ctl {

enum class Width { terminal, wide };  // 80 columns; or every column

std::string text_of(const Interval& interval, Width width);

}  // namespace weir::control::ctl
