#pragma once

#include <algorithm>

#include "common/confine/helpers.h"

// How many random cases a test draws: all of them, and a quarter under sanitizers, where each takes ten times as long.
constexpr int rounds(int all) {
  return weir::confine::kIsSanitized ? std::max(1, all / 4) : all;
}
