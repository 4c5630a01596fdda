#pragma once

#include "control/policy/feeds/format.h"

namespace weir::bench {

// Reads good feeds as control/policy/feeds/plain.cpp does; not one of feeds::formats().
const control::feeds::Format& plain_before();

}  // namespace weir::bench
