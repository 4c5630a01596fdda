#pragma once

#include <string>

#include "control/ctl/top_interval.h"

// An interval as people read it.
namespace weir::control::ctl {

enum class Width { terminal, wide };  // 80 columns; or every column

std::string text_of(const Interval& interval, Width width);

// Three digits and a unit of thousands: 98, 12.3 k, 1.23 M, 9.81 G.
std::string scaled(double per_second);

}  // namespace weir::control::ctl
